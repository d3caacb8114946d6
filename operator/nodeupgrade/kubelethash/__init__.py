"""Bit-exact container hashes of every kubelet from 1.5 to 1.37, computed from what the API serves. Pure and offline."""

from .amounts import resource_amount
from .detect import detect
from .digest import HashValue
from .eras import NEWEST_MINOR, Era, era_of
from .errors import HashError, StaticUidUnknown, UnhashableContainer, UnreadablePod, UnsupportedKubelet
from .explain import Cause, Change, PodChange, explain, explain_pod
from .hashing import hash_container, hash_manifest_container, hash_without_resources
from .pods import compared_containers
from .qos import QosClass, qos_class
from .resize import resize_may_restart
from .static import default_static_container, static_pod_uid, static_uid_may_stay
from .version import KubeletVersion

__all__ = [
    "NEWEST_MINOR",
    "Cause",
    "Change",
    "Era",
    "HashError",
    "HashValue",
    "KubeletVersion",
    "PodChange",
    "QosClass",
    "StaticUidUnknown",
    "UnhashableContainer",
    "UnreadablePod",
    "UnsupportedKubelet",
    "compared_containers",
    "default_static_container",
    "detect",
    "era_of",
    "explain",
    "explain_pod",
    "hash_container",
    "hash_manifest_container",
    "hash_without_resources",
    "qos_class",
    "resize_may_restart",
    "resource_amount",
    "static_pod_uid",
    "static_uid_may_stay",
]
