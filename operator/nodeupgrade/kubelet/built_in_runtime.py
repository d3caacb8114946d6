"""The dockershim, through which kubelets up to 1.23 use Docker directly by default."""

from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import KubeletVersion

DOCKER = "docker"
"""Name of the runtime in a Node's ``containerRuntimeVersion``, with dockershim and with cri-dockerd."""
CRI_DOCKERD = "cri-dockerd"
DOCKER_ENDPOINT = "unix:///var/run/docker.sock"
BUILT_IN_RUNTIME_REMOVED = history.DOCKERSHIM_REMOVED


def uses_built_in_runtime(settings: Configured, runtime: str) -> bool:
    """Report whether a running kubelet uses its dockershim; ``runtime`` is named as the Node reports it.

    Without the flag, a kubelet uses its dockershim if it has one; otherwise its default endpoint is containerd's.
    """
    if runtime != DOCKER:
        return False
    chosen = settings.flag("container-runtime")
    endpoint = settings.text("container-runtime-endpoint", "containerRuntimeEndpoint")
    return chosen == DOCKER or (chosen is None and not endpoint)


def built_in_runtime_objection(target: KubeletVersion) -> str:
    """Return why a kubelet that uses its dockershim cannot become ``target``; empty if it can."""
    if not BUILT_IN_RUNTIME_REMOVED.applies_to(target):
        return ""
    return (
        f"kubelet {target} has no dockershim ({BUILT_IN_RUNTIME_REMOVED.reference}), so that it cannot talk to Docker "
        "itself; 1.23 is the last minor that this node can have in place. Drain it and move it to another runtime "
        "first, such as containerd, which recreates all of its pods"
    )
