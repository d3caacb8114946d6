"""How a kubelet restarts a whole pod by a rule of it: it stops and removes everything, last what has ended."""

from collections.abc import Callable

from nodeupgrade.cluster.pods import Pod
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall
from tests.doubles.node.containers.pods import action_after
from tests.doubles.node.containers.runtime import SimulatedRuntime


def restarts_all(
    pod: Pod, kubelet: KubeletVersion, runtime: SimulatedRuntime, refused: Callable[[RuntimeCall], bool]
) -> bool:
    """Stop and remove all containers of a pod, if it has come to that; the next sync starts them again.

    Returns:
        Whether it has come to that.
    """
    own = [stored.instance for stored in runtime.containers.values() if stored.instance.pod == pod.ref]
    sources = _sources(pod, own) if history.ALL_CONTAINERS_RESTART.applies_to(kubelet) else []
    for each in [*(each for each in own if each not in sources), *sources] if sources else []:
        if each.state is ContainerState.RUNNING:
            if refused(RuntimeCall(method=Method.STOP_CONTAINER, container=each.id)):
                break
            runtime.stop_container(each.id)
        if refused(RuntimeCall(method=Method.REMOVE_CONTAINER, container=each.id)):
            break
        del runtime.containers[each.id]
    return bool(sources)


def _sources(pod: Pod, instances: list[ContainerInstance]) -> list[ContainerInstance]:
    """Return the ended containers for whose exit code all containers of the pod are restarted."""
    ended = {each.name: each for each in instances if each.state is ContainerState.EXITED}
    running = {each.name for each in instances if each.state is ContainerState.RUNNING}
    found = [(c, ended[c.name]) for c in pod.containers if c.name in ended.keys() - running]
    return [each for container, each in found if action_after(container, each) == "RestartAllContainers"]
