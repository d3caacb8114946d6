"""Claims: the writes by which a rollout claims and releases its nodes.

They concern only tasks of nodes without a slot, at most ``WRITES_AT_ONCE`` per pass.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.run_id import RunKind, new_run_id
from nodeupgrade.api.task.spec import TaskAction, TaskSpec, UpgradeRef
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.actions import Blank, Claim, DropTask, NodeAction, Release
from nodeupgrade.domain.rollout.inflight.retry import past_runs, reopened
from nodeupgrade.domain.rollout.select.membership import is_claimable, resolve_artifact
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WRITES_AT_ONCE = 250


def prepare(rollout: RolloutView, now: datetime, *, stalled: bool) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    Args:
        rollout: The current view of the rollout.
        now: Wall-clock time, UTC.
        stalled: Whether a person is needed before the rollout continues; if so, nothing is retried automatically.
    """
    if rollout.upgrade.deleting or rollout.spec.action is RolloutAction.ABORT:
        return ()
    goes_on = not rollout.upgrade.finished or rollout.upgrade.retry_asked
    due: list[NodeAction] = [*reopened(rollout, now, by_itself=may_claim(rollout) and not stalled)]
    if rollout.upgrade.status.accepted_spec_digest and may_claim(rollout) and goes_on:
        due += _claimed(rollout, now)
    return tuple(due[:WRITES_AT_ONCE])


def may_claim(rollout: RolloutView) -> bool:
    """Report whether nodes may be claimed now: not while the rollout is paused or aborted."""
    return rollout.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not rollout.upgrade.braked


def release_all(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Return the releases of tasks that are claimed but whose run never began."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    message = "the claim is given back"
    return tuple(
        Release(node=task.name, task=task, reason=Reason.CLAIMED, message=f"node {task.name}: {message}")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def clear_stale(rollout: RolloutView) -> tuple[Blank, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run."""
    waiting = (s.task for s in rollout.members.values() if s.place is not Place.IN_FLIGHT)
    stale = (
        task
        for task in waiting
        if task is not None and task.spec.action is TaskAction.WAIT and task.status.run_id not in {"", task.spec.run_id}
    )
    return tuple(
        Blank(node=task.name, task=task, reason=Reason.CLAIMED, message=f"node {task.name} has not begun")
        for task in islice(stale, WRITES_AT_ONCE)
    )


def task_spec(
    fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, *, wave: str, order: int, now: datetime
) -> TaskSpec:
    """Return the spec of a waiting task, resolved for this node.

    Raises:
        KeyError: There is no artifact for the node's platform.
    """
    upgrade, held = fleet.upgrade, fleet.tasks.get(node.name)
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=new_run_id(upgrade.uid, now),
        from_version=node.kubelet_version,
        to_version=spec.version,
        artifact=resolve_artifact(spec.artifact, node.platform),
        files=spec.files,
        wave=wave,
        order=order,
        allow_downgrade=spec.allow_downgrade,
        hash_mode=spec.hash.mode,
        kubelet=spec.kubelet,
        preflight=spec.preflight,
        verify=spec.verify,
        history=() if held is None else past_runs(held),
    )


def _claimed(rollout: RolloutView, now: datetime) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(rollout.members)}
    for member in rollout.unclaimed[:WRITES_AT_ONCE]:
        if (node := member.view) is None:
            continue
        held = rollout.fleet.tasks.get(node.name)
        if held is not None and held.spec.node_uid != node.uid:
            message = f"node {node.name} was replaced by another one of the same name"
            yield DropTask(node=node.name, task=held, reason=Reason.NODE_NOT_FOUND, message=message)
            continue
        if (
            held is not None
            and held.spec.upgrade_ref.uid != rollout.upgrade.uid
            and not is_claimable(held, rollout.fleet.active_upgrades)
        ):
            continue
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        spec = task_spec(rollout.fleet, rollout.spec, node, wave=member.wave, order=order[node.name], now=now)
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)
