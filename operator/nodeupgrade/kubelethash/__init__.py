"""Bit-exact container hashes of every kubelet from 1.5 to 1.37, computed from what the API serves. Pure and offline."""

from .digest import HashValue
from .eras import Era, era_of
from .errors import HashError, StaticUidUnknown, UnhashableContainer, UnsupportedKubelet
from .hashing import hash_container, hash_manifest_container, hash_without_resources
from .version import KubeletVersion

__all__ = [
    "Era",
    "HashError",
    "HashValue",
    "KubeletVersion",
    "StaticUidUnknown",
    "UnhashableContainer",
    "UnsupportedKubelet",
    "era_of",
    "hash_container",
    "hash_manifest_container",
    "hash_without_resources",
]
