"""Claims: the writes by which a rollout claims and releases its nodes.

They concern only tasks of nodes without a slot, at most ``WRITES_AT_ONCE`` per pass.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, RunKind, TaskAction, new_run_id
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.domain.rollout.actions import Blank, Claim, DropTask, NodeAction, NoteHold, Release, Reopen
from nodeupgrade.domain.rollout.budgets import StartDecision
from nodeupgrade.domain.rollout.candidate import Candidate, is_claimable, past_runs, task_spec
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WRITES_AT_ONCE = 250


def prepare(rollout: RolloutView, decision: StartDecision) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    A rollout that waits for an older one gives back its claims. Nothing is retried automatically as long as a person
    is needed before the rollout continues.
    """
    if rollout.upgrade.finished and not rollout.upgrade.retry_asked:
        return ()
    if decision.behind:
        return release_all(rollout.fleet)
    if rollout.is_called_off:
        return ()
    due: list[NodeAction] = [*_reopened(rollout, by_itself=may_claim(rollout) and not decision.stalls)]
    if rollout.upgrade.status.accepted_spec_digest and may_claim(rollout):
        due += _claimed(rollout)
    due += _held(rollout)
    return tuple(due[:WRITES_AT_ONCE])


def _held(rollout: RolloutView) -> Iterable[NoteHold]:
    """Return the notes on nodes that are found held by a pod for the first time."""
    for member in rollout.waiting:
        if member.reason is Reason.HELD_BY_POD and member.task is not None and member.task.held_since is None:
            yield NoteHold(task=member.task, reason=member.reason, message=member.message)


def may_claim(rollout: RolloutView) -> bool:
    """Report whether nodes may be claimed now: not while the rollout is paused or aborted."""
    return rollout.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not rollout.upgrade.braked


def release_all(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Return the releases of tasks that are claimed but whose run never began."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    return tuple(
        Release(task=task, reason=Reason.CLAIMED, message=f"node {task.name}: the claim is given back")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def clear_stale(rollout: RolloutView) -> tuple[Blank, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run."""
    stale = (
        task
        for task in (member.task for member in rollout.waiting)
        if task is not None and task.spec.action is TaskAction.WAIT and task.status.run_id not in {"", task.spec.run_id}
    )
    return tuple(
        Blank(task=task, reason=Reason.CLAIMED, message=f"node {task.name} has not begun")
        for task in islice(stale, WRITES_AT_ONCE)
    )


def _claimed(rollout: RolloutView) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(rollout.members)}
    for member in rollout.unclaimed[:WRITES_AT_ONCE]:
        if (node := member.view) is None or node.name in rollout.freed:
            continue
        held = rollout.fleet.tasks.get(node.name)
        if held is not None and held.spec.node_uid != node.uid:
            message = f"node {node.name} was replaced by another one of the same name"
            yield DropTask(task=held, reason=Reason.NODE_NOT_FOUND, message=message)
            continue
        if (
            held is not None
            and held.spec.upgrade_ref.uid != rollout.upgrade.uid
            and not is_claimable(held, rollout.fleet.active_upgrades)
        ):
            continue
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        candidate = Candidate(fleet=rollout.fleet, spec=rollout.spec, node=node, now=rollout.now)
        spec = task_spec(candidate, wave=member.wave, order=order[node.name])
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


def _reopened(rollout: RolloutView, *, by_itself: bool) -> Iterable[Reopen]:
    """Reopen prechecked nodes once the action is Run, nodes to retry on request, and nodes to retry automatically.

    A reopened node waits for its turn like any other.
    """
    for member in rollout.waiting:
        if (task := member.task) is None or task.verdict is None:
            continue
        if (asked := rollout.reopening(member)) is not None:
            yield _reopen(rollout, task, *asked)
        elif by_itself and member.again is not None and member.again <= rollout.now:
            yield _reopen(rollout, task, task.spec.retry, f"{task.verdict.reason} may have passed")


def _reopen(rollout: RolloutView, task: Task, retry: str, because: str) -> Reopen:
    spec = replace(
        task.spec,
        run_id=new_run_id(rollout.upgrade.uid, rollout.now),
        action=TaskAction.WAIT,
        action_reason="",
        action_message="",
        retry=retry,
        deadline=None,
        guard=GuardGrant(),
        verdict=None,
        history=past_runs(task),
    )
    message = f"node {task.name} waits for its turn again: {because}"
    return Reopen(task=task, spec=spec, reason=Reason.REOPENED, message=message)
