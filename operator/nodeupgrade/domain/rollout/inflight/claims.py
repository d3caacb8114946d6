"""Claims: the writes by which a rollout takes hold of its nodes, reopens what is to be tried again, and lets go.

All of them go to tasks that hold no slot, at most ``WRITES_AT_ONCE`` in one pass.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import GuardGrant, PastRun, TaskAction, TaskSpec, UpgradeRef, Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.values import RunId
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.actions import Blank, Claim, DropTask, NodeAction, Release, Reopen
from nodeupgrade.domain.rollout.select.membership import resolve_artifact
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WRITES_AT_ONCE = 100
HISTORY_KEPT = 5

RETRIED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED})
"""Verdicts that a retry clears; a node that could not be rolled back needs a human."""


def prepare(rollout: RolloutView, now: datetime, *, stalled: bool) -> tuple[NodeAction, ...]:
    """Return the writes that have to be made before any node is started; none when everything is prepared.

    Args:
        rollout: The rollout at this moment.
        now: Wall-clock time, UTC.
        stalled: Whether a human is needed before anything goes on; nothing is tried again by itself then.
    """
    if rollout.upgrade.deleting or rollout.spec.action is RolloutAction.ABORT:
        return ()
    due: list[NodeAction] = [*_reopened(rollout, now, by_itself=may_claim(rollout) and not stalled)]
    if rollout.upgrade.status.accepted_spec_digest and may_claim(rollout) and not rollout.upgrade.finished:
        due += _claimed(rollout, now)
    return tuple(due[:WRITES_AT_ONCE])


def may_claim(rollout: RolloutView) -> bool:
    """Whether nodes may be claimed now: not while somebody holds the rollout back."""
    return rollout.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not rollout.upgrade.braked


def let_go(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Give back what is claimed and was never begun."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    message = "the claim is given back"
    return tuple(
        Release(node=task.name, task=task, reason=Reason.CLAIMED, message=f"node {task.name}: {message}")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def blanked(rollout: RolloutView) -> tuple[Blank, ...]:
    """Clear what tasks that wait for their turn still say of a run that is history."""
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


def retry_asked(upgrade: Upgrade) -> bool:
    """Whether a retry is asked for that has not been carried out."""
    return upgrade.retry not in {"", upgrade.status.last_handled_retry}


def task_spec(rollout: RolloutView, node: NodeView, order: int, now: datetime) -> TaskSpec:
    """Write what a task says while it waits, resolved for this very node.

    Raises:
        AssertionError: There is no artifact for the node's platform, which is checked before.
    """
    upgrade, spec = rollout.upgrade, rollout.spec
    artifact = resolve_artifact(spec.artifact, node.platform)
    if artifact is None:
        raise AssertionError("nodes without an artifact are never claimed")
    held = rollout.fleet.tasks.get(node.name)
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=_run_id(upgrade, now),
        from_version=node.kubelet_version,
        to_version=spec.version,
        artifact=artifact,
        wave=rollout.members[node.name].wave,
        order=order,
        allow_downgrade=spec.allow_downgrade,
        hash_mode=spec.hash.mode,
        kubelet=spec.kubelet,
        verify=spec.verify,
        history=() if held is None else _history(held),
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
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        spec = task_spec(rollout, node, order[node.name], now)
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


def _reopened(rollout: RolloutView, now: datetime, *, by_itself: bool) -> Iterable[Reopen]:
    """Reopen what only had a look, once the rollout is to run, what a retry asks for, and what is due by itself."""
    wanted = rollout.upgrade.retry if retry_asked(rollout.upgrade) else None
    for member in rollout.members.values():
        task = member.task
        if task is None or task.verdict is None or member.view is None or member.place is Place.IN_FLIGHT:
            continue
        if task.kind is RunKind.PRECHECK and rollout.spec.action is RolloutAction.RUN:
            yield _reopen(rollout, task, task.spec.retry, "its plan was made", now)
        elif wanted is not None and wanted != task.spec.retry and task.verdict.outcome in RETRIED:
            yield _reopen(rollout, task, wanted, f"retry {wanted} is asked for", now)
        elif by_itself and member.again is not None and member.again <= now:
            yield _reopen(rollout, task, task.spec.retry, f"{task.verdict.reason} may have passed", now)


def _reopen(rollout: RolloutView, task: Task, retry: str, because: str, now: datetime) -> Reopen:
    spec = replace(
        task.spec,
        run_id=_run_id(rollout.upgrade, now),
        action=TaskAction.WAIT,
        action_reason="",
        action_message="",
        retry=retry,
        deadline=None,
        guard=GuardGrant(),
        verdict=None,
        history=_history(task),
    )
    message = f"node {task.name} waits for its turn again: {because}"
    return Reopen(node=task.name, task=task, spec=spec, reason=Reason.REOPENED, message=message)


def _run_id(upgrade: Upgrade, now: datetime) -> RunId:
    return RunId(f"{upgrade.uid[:8]}-{now:%Y%m%d%H%M%S}")


def _history(held: Task) -> tuple[PastRun, ...]:
    """Remember how the runs before ended, the last ones only; a look that touched nothing is not a run."""
    verdict = held.verdict
    if verdict is None or held.kind is RunKind.PRECHECK:
        return held.spec.history
    past = PastRun(
        upgrade=held.spec.upgrade_ref.name,
        from_version=held.spec.from_version,
        to_version=held.spec.to_version,
        result=verdict.outcome,
        time=verdict.decided_at,
    )
    return (*held.spec.history, past)[-HISTORY_KEPT:]
