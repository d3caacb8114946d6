"""The version skew that Kubernetes supports between API server and kubelet.

A kubelet must not be newer than the API server. Since 1.28, kubelets from 1.25 on may be three minors older; before
that, two. See https://kubernetes.io/releases/version-skew-policy/.
"""

from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion


def supported_minors_behind(kubelet: KubeletVersion) -> int:
    """Return how many minors older than the API server this kubelet may be."""
    return 3 if history.THREE_MINORS_BEHIND.applies_to(kubelet) else 2


def is_newer_than_server(kubelet: KubeletVersion, server: KubeletVersion) -> bool:
    """Report whether the kubelet's minor is later than the API server's; patch releases do not count."""
    return (kubelet.major, kubelet.minor) > (server.major, server.minor)


def is_too_old_for_server(kubelet: KubeletVersion, server: KubeletVersion) -> bool:
    """Report whether the kubelet's minor is earlier than the API server supports."""
    return server.minor - kubelet.minor > supported_minors_behind(kubelet)
