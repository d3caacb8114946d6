"""Kubelets up to 1.23 can talk to Docker themselves, by their dockershim, and do so unless told otherwise."""

from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import KubeletVersion

DOCKER = "docker"
"""Name of the runtime in a Node's ``containerRuntimeVersion``, with dockershim and with cri-dockerd."""
CRI_DOCKERD = "cri-dockerd"
ENDPOINT = "unix:///var/run/docker.sock"
REMOVED = history.DOCKERSHIM_REMOVED
REMEDY = (
    "1.23 is the last minor that this node can have in place. Drain it and move it to another runtime first, such as "
    "containerd, which starts all of its pods anew"
)


def is_used(settings: Configured, runtime: str) -> bool:
    """Report whether a running kubelet uses its dockershim.

    Without the flag, every kubelet that has a dockershim uses it; one that has none needs an endpoint, since its
    default is containerd's.

    Args:
        settings: the kubelet's.
        runtime: name of its runtime, as the Node reports it.
    """
    if runtime != DOCKER:
        return False
    chosen = settings.flag("container-runtime")
    endpoint = settings.text("container-runtime-endpoint", "containerRuntimeEndpoint")
    return chosen == DOCKER or (chosen is None and not endpoint)


def endpoint(settings: Configured) -> str:
    """Return the endpoint at which dockershim reaches Docker."""
    return settings.flag("docker-endpoint") or ENDPOINT


def adapter_for(runtime: str, *, built_in: bool) -> str:
    """Return the name of what a kubelet's runtime is reached through."""
    return CRI_DOCKERD if runtime == DOCKER and not built_in else runtime


def objection(target: KubeletVersion) -> str:
    """Return why a kubelet that uses its dockershim cannot become ``target``; empty if it can."""
    if not REMOVED.applies_to(target):
        return ""
    return (
        f"kubelet {target} has no dockershim ({REMOVED.reference}), so that it cannot talk to Docker itself; {REMEDY}"
    )
