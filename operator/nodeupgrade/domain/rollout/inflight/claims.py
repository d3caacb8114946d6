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
from nodeupgrade.domain.rollout.actions import Blank, Claim, DropTask, NodeAction, Release, Reopen
from nodeupgrade.domain.rollout.select.membership import resolve_artifact
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import Survey
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.views import NodeView

WRITES_AT_ONCE = 100
HISTORY_KEPT = 5

RETRIED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED})
"""Verdicts that a retry clears; a node that could not be rolled back needs a human."""


def prepare(survey: Survey, now: datetime, *, stalled: bool) -> tuple[NodeAction, ...]:
    """Return the writes that have to be made before any node is started; none when everything is prepared.

    Args:
        survey: The rollout.
        now: Wall-clock time, UTC.
        stalled: Whether a human is needed before anything goes on; nothing is tried again by itself then.
    """
    if survey.upgrade.deleting or survey.spec.action is RolloutAction.ABORT:
        return ()
    due: list[NodeAction] = [*_reopened(survey, now, by_itself=may_claim(survey) and not stalled)]
    if survey.upgrade.status.accepted_spec_digest and may_claim(survey) and not survey.upgrade.finished:
        due += _claimed(survey, now)
    return tuple(due[:WRITES_AT_ONCE])


def may_claim(survey: Survey) -> bool:
    """Whether nodes may be claimed now: not while somebody holds the rollout back."""
    return survey.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not survey.upgrade.braked


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


def blanked(survey: Survey) -> tuple[Blank, ...]:
    """Clear what tasks that wait for their turn still say of a run that is history."""
    waiting = (s.task for s in survey.standings.values() if s.place is not Place.IN_FLIGHT)
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


def task_spec(survey: Survey, node: NodeView, order: int, now: datetime) -> TaskSpec:
    """Write what a task says while it waits, resolved for this very node.

    Raises:
        AssertionError: There is no artifact for the node's platform, which is checked before.
    """
    upgrade, spec = survey.upgrade, survey.spec
    artifact = resolve_artifact(spec.artifact, node.platform)
    if artifact is None:
        raise AssertionError("nodes without an artifact are never claimed")
    held = survey.fleet.tasks.get(node.name)
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=_run_id(upgrade, now),
        from_version=node.kubelet_version,
        to_version=spec.version,
        artifact=artifact,
        wave=survey.standings[node.name].wave,
        order=order,
        allow_downgrade=spec.allow_downgrade,
        hash_mode=spec.hash.mode,
        kubelet=spec.kubelet,
        verify=spec.verify,
        history=() if held is None else _history(held),
    )


def _claimed(survey: Survey, now: datetime) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(survey.standings)}
    for standing in survey.unclaimed[:WRITES_AT_ONCE]:
        if (node := standing.view) is None:
            continue
        held = survey.fleet.tasks.get(node.name)
        if held is not None and held.spec.node_uid != node.uid:
            message = f"node {node.name} was replaced by another one of the same name"
            yield DropTask(node=node.name, task=held, reason=Reason.NODE_NOT_FOUND, message=message)
            continue
        message = f"node {node.name} belongs to {f'wave {standing.wave}' if survey.spec.waves else 'the rollout'}"
        spec = task_spec(survey, node, order[node.name], now)
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


def _reopened(survey: Survey, now: datetime, *, by_itself: bool) -> Iterable[Reopen]:
    """Reopen what only had a look, once the rollout is to run, what a retry asks for, and what is due by itself."""
    wanted = survey.upgrade.retry if retry_asked(survey.upgrade) else None
    for standing in survey.standings.values():
        task = standing.task
        if task is None or task.verdict is None or standing.view is None or standing.place is Place.IN_FLIGHT:
            continue
        if task.kind is RunKind.PRECHECK and survey.spec.action is RolloutAction.RUN:
            yield _reopen(survey, task, task.spec.retry, "its plan was made", now)
        elif wanted is not None and wanted != task.spec.retry and task.verdict.outcome in RETRIED:
            yield _reopen(survey, task, wanted, f"retry {wanted} is asked for", now)
        elif by_itself and standing.again is not None and standing.again <= now:
            yield _reopen(survey, task, task.spec.retry, f"{task.verdict.reason} may have passed", now)


def _reopen(survey: Survey, task: Task, retry: str, because: str, now: datetime) -> Reopen:
    spec = replace(
        task.spec,
        run_id=_run_id(survey.upgrade, now),
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
