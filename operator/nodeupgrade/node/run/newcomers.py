"""Restore the old kubelet's hashes of containers in pods that were added after planning, or changed by their owners.

That includes a container which was resized in place: kubelets before 1.31 hash its resources.

The executor cannot compute them, since it has no pods. It uses the agent's report, and waits for it only for a moment:
neither its content nor its absence stops a rollback.
"""

from nodeupgrade.api.values import ContainerId
from nodeupgrade.cluster.owner_changes import owner_change
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import AwaitedContainer, Newcomers, RunPlan
from nodeupgrade.node.run import plan_amendment
from nodeupgrade.node.run.container_watch import LOOK_SECONDS
from nodeupgrade.node.run.hash_restoring import store_hash
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, StoredHashes
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS


def restore_hashes(node: Node, plan: RunPlan) -> tuple[tuple[AwaitedContainer, ...], dict[ContainerId, str]]:
    """Store the old kubelet's hash with each container that stores the hash that the agent reported, or the planned.

    Returns:
        The containers that store it now, and labels of those that the old kubelet may not recognise.
    """
    known, planned, owners = plan.pods(), {c.id: c for c in plan.containers}, node.owner_changes()
    resized = {c.id for c in plan_amendment.resized(plan, owners)}
    present = (c for c in node.runtime.inventory().containers if c.state is not ContainerState.EXITED)
    unplanned = [
        c
        for c in present
        if c.pod.uid not in known
        or c.id in resized
        or (c.id not in planned and owner_change(plan.owned, owners, c.pod.uid, c.name, ends=False))
    ]
    report = _reported(node, unplanned)
    expectations = {(c.pod, c.name): c for c in report.containers}
    restored, doubtful = list[AwaitedContainer](), dict[ContainerId, str]()
    for container in unplanned:
        expected = expectations.get((container.pod.uid, container.name))
        if expected is None:
            doubtful |= {container.id: container.label} if container.pod.uid not in report.pods else {}
        elif store_hash(
            node,
            container.id,
            StoredHashes(container=expected.before),
            instead_of=planned[container.id].before.container if container.id in planned else expected.after,
        ):
            restored.append(expected)
        else:
            doubtful[container.id] = container.label
    return tuple(restored), doubtful


def _reported(node: Node, unplanned: list[ContainerInstance]) -> Newcomers:
    pods = {container.pod.uid for container in unplanned}
    deadline = node.clock.awake() + EXCUSE_SECONDS
    report = (node.newcomers() if unplanned else None) or Newcomers()
    while not pods.issubset(report.pods) and node.clock.awake() < deadline:
        node.clock.sleep(LOOK_SECONDS)
        report = node.newcomers() or report
    return report
