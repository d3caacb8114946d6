"""Computes bit-exact container hashes of every kubelet since 1.5 from API objects. Pure and offline.

Imports nothing else of this project, so that it can be published alone.
"""

from .changes import NEWEST_MINOR, OLDEST_MINOR, Era, MinorChange, era_of, known_kubelets
from .detection import detect, group_by_writer
from .errors import HashError, UnhashableContainer, UnreadablePod, UnsupportedKubelet
from .explain import HashChange, PodChange, explain, explain_pod
from .go.digest import HashValue, fnv1a
from .go.quantity import resource_amount
from .hashing import hash_container, hash_manifest_container, hash_without_resources
from .kubelet_version import KubeletVersion, series_ranges
from .pods import compared_containers, is_sidecar
from .qos import QosClass, qos_class
from .resize import resize_may_restart
from .static import default_static_container, static_uid_may_stay
