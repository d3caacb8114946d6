"""Which ended containers, as the runtime lists them, make a kubelet restart their whole pod."""

from collections.abc import Iterable, Iterator, Mapping

from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState
from nodeupgrade.domain.restart_rules import RuledContainer


def restarting(
    containers: Iterable[RuledContainer], pod: PodUid, listed: Iterable[ContainerInstance]
) -> Iterator[ContainerInstance]:
    """Yield the ended containers of a pod whose end restarts all of its containers.

    Args:
        containers: containers with rules, of any pods.
        listed: the containers that the runtime lists, with their exit codes; those of other pods are ignored.
    """
    newest = newest_of(pod, listed)
    for container in containers:
        ended = newest.get(container.name) if container.pod == pod else None
        if ended is not None and _restarts_pod(container, ended):
            yield ended


def newest_of(pod: PodUid, listed: Iterable[ContainerInstance]) -> Mapping[str, ContainerInstance]:
    """Return the newest instance of each container of a pod, by name."""
    return {each.name: each for each in sorted(listed, key=lambda c: c.created_at) if each.pod.uid == pod}


def _restarts_pod(container: RuledContainer, ended: ContainerInstance) -> bool:
    if ended.state is not ContainerState.EXITED or ended.exit_code is None:
        return False
    rule = container.rule_for(ended.exit_code)
    return rule is not None and rule.whole_pod
