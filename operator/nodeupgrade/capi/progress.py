"""What comes next for a Machine that Cluster API has handed over: a pure function over Node, task and NodeUpgrade.

A NodeUpgrade with ``membership: Continuous`` ends when all nodes that it has are upgraded, often before Cluster API
hands over the next one. A retry opens it again, so one NodeUpgrade serves a MachineDeployment and a version.
"""

from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.upgrade.object import RETRY_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import RunKind, Verdict
from nodeupgrade.capi.answers import Done, Failed, Waiting
from nodeupgrade.capi.rollouts import NODE_LABEL, is_for
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.decide.counting import ADMISSION
from nodeupgrade.fleet.decide.node_state import WAITED_FOR
from nodeupgrade.fleet.failures import FAILURES, may_pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The Node is to join its NodeUpgrade."""

    creates: bool = False  # whether there is no NodeUpgrade yet
    retry: str | None = None  # token by which one that has ended is opened again


_AGAIN = f"Remove the cause; then set annotation {RETRY_ANNOTATION} of the NodeUpgrade, and this Machine goes on."
_BY_ITSELF = "Remove the cause, and this Machine goes on by itself."

Step: TypeAlias = Done | Waiting | Failed | Join


def next_step(node: NodeView, task: Task | None, upgrade: Upgrade | None, name: str, version: str) -> Step:
    """Return what comes next.

    Args:
        node: The Node.
        task: Its task, whoever claims it.
        upgrade: The NodeUpgrade of its MachineDeployment and this version, if it exists.
        name: The name of that NodeUpgrade.
        version: The version that Cluster API wants.
    """
    if upgrade is not None and not is_for(upgrade.spec, name, version):
        return Failed(f"NodeUpgrade {name} is not what was made for this version; delete it ({upgrade.problem})")
    verdict = _verdict(task, node, version)
    if task is not None and task.open:
        return Waiting(_words(task))
    if upgrade is not None and upgrade.status.slot(node.name) is not None:
        return Waiting(f"NodeUpgrade {name}: node {node.name} is in flight")
    if node.kubelet_version == version and (verdict is None or verdict.outcome is Verdict.SUCCEEDED):
        return Done()
    if upgrade is None:
        return Join(creates=True)
    if upgrade.deleting:
        return Waiting(f"NodeUpgrade {name} is being deleted")
    if verdict is not None and task is not None and task.spec.upgrade_ref.uid == upgrade.uid:
        return _judged(upgrade, verdict)
    return _to_join(upgrade, node)


def _verdict(task: Task | None, node: NodeView, version: str) -> RunVerdict | None:
    """Return the control plane's verdict on the upgrade of this Node to this version, if there is one."""
    if task is None or task.kind is not RunKind.UPGRADE:
        return None
    return task.verdict if (task.spec.node_uid, task.spec.to_version) == (node.uid, version) else None


def _words(task: Task) -> str:
    """Return how far a run is, in the words of its task."""
    status = task.reported
    said = f": {status.message}" if status.message else ""
    return f"NodeUpgrade {task.spec.upgrade_ref.name}: node {task.name} is {status.phase.value}{said}"


def _judged(upgrade: Upgrade, verdict: RunVerdict) -> Step:
    """Return what comes next after a run that did not bring the version."""
    if upgrade.retry_requested:
        return _waiting(upgrade, f"retry {upgrade.retry} is requested")
    if not upgrade.finished and may_pass(verdict):
        return _waiting(upgrade, verdict.message)
    return _failed(upgrade, f"{verdict.outcome.value}: {verdict.message}", _AGAIN)


def _to_join(upgrade: Upgrade, node: NodeView) -> Step:
    joined = node.labels.get(NODE_LABEL) == upgrade.name
    if not upgrade.finished or upgrade.retry_requested:
        return _not_started(upgrade, node) if joined else Join()
    if upgrade.status.aborted:
        return Failed(f"NodeUpgrade {upgrade.name} was aborted; delete it, and another one is created")
    if any(failure.outcome in FAILURES for failure in upgrade.status.failures):
        return _failed(upgrade, f"it has failed: {_state(upgrade)}", _AGAIN)
    if joined and upgrade.status.last_handled_retry == node.uid:
        skips = f" ({', '.join(upgrade.status.skips)})" if upgrade.status.skips else ""
        return _failed(upgrade, f"it ended without node {node.name}: {_state(upgrade)}{skips}", _AGAIN)
    return Join(retry=node.uid)


def _not_started(upgrade: Upgrade, node: NodeView) -> Waiting | Failed:
    """Return what keeps a node that has joined from being started, and whether that lasts until a person removes it."""
    state, status = _state(upgrade), upgrade.status
    if upgrade.retry_requested:
        return _waiting(upgrade, state)
    refused = next((each for each in status.failures if each.node == node.name and each.step == ADMISSION), None)
    if refused is not None and refused.outcome is None:
        passing = known_reason(refused.reason) in WAITED_FOR
        said = f"node {node.name} is refused: {refused.message}"
        return _waiting(upgrade, said) if passing else _failed(upgrade, said, _BY_ITSELF)
    unseen = status.condition(ConditionType.STALLED).reason == Reason.NO_MATCHING_NODES
    if status.holds(ConditionType.STALLED) and not unseen:
        return _failed(upgrade, state, _BY_ITSELF)
    return _waiting(upgrade, state)


def _waiting(upgrade: Upgrade, why: str) -> Waiting:
    return Waiting(f"NodeUpgrade {upgrade.name}: {why}")


def _failed(upgrade: Upgrade, why: str, remedy: str) -> Failed:
    return Failed(f"NodeUpgrade {upgrade.name}: {why.rstrip(' .')}. {remedy}")


def _state(upgrade: Upgrade) -> str:
    return upgrade.status.condition(ConditionType.READY).message or "not yet seen by the operator"
