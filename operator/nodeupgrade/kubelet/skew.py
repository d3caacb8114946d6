"""The version skew that Kubernetes supports between API server and kubelet.

A kubelet is never newer than the API server; since 1.28 (and for kubelets from 1.25 on) it may be three minors
older, before that two: https://kubernetes.io/releases/version-skew-policy/.
"""

from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion


def supported_minors_behind(kubelet: KubeletVersion) -> int:
    """How many minors older than the API server this kubelet may be."""
    return 3 if history.THREE_MINORS_BEHIND.applies_to(kubelet) else 2


def is_newer_than_server(kubelet: KubeletVersion, server: KubeletVersion) -> bool:
    """Whether the kubelet is of a later minor than the API server; patch releases do not count."""
    return (kubelet.major, kubelet.minor) > (server.major, server.minor)


def is_too_old_for_server(kubelet: KubeletVersion, server: KubeletVersion) -> bool:
    """Whether the kubelet is of an earlier minor than the API server supports."""
    return server.minor - kubelet.minor > supported_minors_behind(kubelet)
