"""The writes of a rollout besides its status: claims and their release, admissions, and what ends it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import new_run_id
from nodeupgrade.api.task.spec import GuardGrant, TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.wording import sentence
from nodeupgrade.fleet.actions import (
    Admit,
    Claim,
    ClearTaskStatus,
    DropTask,
    Hold,
    NodeAction,
    RecordHold,
    ReleaseTask,
    RemoveFinalizer,
    Reopen,
    Report,
    WriteStatus,
)
from nodeupgrade.fleet.decide.admission import warnings
from nodeupgrade.fleet.decide.budgets import UNDECIDED, StartDecision
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import Reopening, RolloutView
from nodeupgrade.fleet.failures import records_failure

WRITES_AT_ONCE = 250
"""How many claims, releases and the like a plan has at most."""


def prepare(rollout: RolloutView, decision: StartDecision) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    A rollout that waits for an older one releases its idle claims. Nothing is retried automatically while the rollout
    needs a person.
    """
    if rollout.upgrade.finished and not rollout.upgrade.retry_requested:
        return ()
    if decision.behind:
        return tuple(map(_release, rollout.ledger.idle_claims[:WRITES_AT_ONCE]))
    if rollout.is_called_off:
        return ()
    automatic = rollout.may_claim and not decision.stalls
    due: list[NodeAction] = [
        _reopen(rollout, found) for found in rollout.reopenings if automatic or not found.automatic
    ]
    if rollout.upgrade.status.accepted_spec_digest and rollout.may_claim:
        due += _claims(rollout)
    due += _hold_notes(rollout)
    due += _drops(rollout)
    return tuple(due[:WRITES_AT_ONCE])


def _hold_notes(rollout: RolloutView) -> Iterable[RecordHold]:
    """Return the notes on nodes that are found held by a pod for the first time."""
    for member in rollout.waiting:
        if member.reason is Reason.HELD_BY_POD and member.task is not None and member.task.held_since is None:
            yield RecordHold(task=member.task, reason=member.reason, message=member.message)


def _drops(rollout: RolloutView) -> Iterable[DropTask]:
    """Return the deletions of tasks whose Nodes are gone; a failure stays until a retry."""
    for task in sorted(rollout.stale, key=lambda task: task.name):
        if rollout.upgrade.retry_requested or not records_failure(task):
            message = f"node {task.name} does not exist any more"
            yield DropTask(task=task, reason=Reason.NODE_NOT_FOUND, message=message)


def release_strays(rollout: RolloutView, decision: StartDecision) -> tuple[ReleaseTask, ...]:
    """Return the releases of idle claims on nodes that were excluded, or have left the selector.

    Another rollout may claim these nodes at once; nothing else waits for that.
    """
    if rollout.upgrade.finished or decision.behind:
        return ()
    return tuple(map(_release, rollout.strays[:WRITES_AT_ONCE]))


def _release(task: Task) -> ReleaseTask:
    return ReleaseTask(task=task, reason=Reason.CLAIMED, message=f"the claim on node {task.name} is released")


def limit_to_prepared(
    rollout: RolloutView, decision: StartDecision, preparations: Sequence[NodeAction], due: Sequence[NodeAction]
) -> StartDecision:
    """Limit a decision to nodes that are prepared.

    Nodes are claimed in the order in which they are upgraded, so the first ones need not wait until the whole fleet is
    claimed; unless claims are refused, since then it is not known who takes part.
    """
    if decision.behind:
        return decision
    others = any(not isinstance(action, Claim) for action in preparations)
    backing_off = len(preparations) < len(due)
    if rollout.upgrade.finished or others or (backing_off and not rollout.planned):
        return UNDECIDED
    if not rollout.unclaimed or not rollout.may_claim:
        return decision
    if claimed := tuple(takewhile(lambda member: member.task is not None, decision.nodes)):
        return StartDecision(nodes=claimed)
    return UNDECIDED


def clear_stale(rollout: RolloutView) -> tuple[ClearTaskStatus, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run.

    One that may continue is told of nowhere else.
    """
    tasks = (member.task for member in rollout.waiting if member.task is not None)
    waiting = (task for task in tasks if task.spec.action is TaskAction.WAIT and not task.earlier_may_continue)
    stale = (
        task
        for task in waiting
        if task.status.run_id not in {"", task.spec.run_id} or task.status.phase is TaskPhase.RELEASED
    )
    return tuple(
        ClearTaskStatus(task=task, reason=Reason.CLAIMED, message=f"node {task.name} has not begun")
        for task in islice(stale, WRITES_AT_ONCE)
    )


def _claims(rollout: RolloutView) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(rollout.members)}
    for member in rollout.unclaimed[:WRITES_AT_ONCE]:
        if (candidate := member.candidate) is None or candidate.holder is not None or member.node in rollout.freed:
            continue
        message = f"node {member.node} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        spec = replace(candidate.task_spec, wave=member.wave, order=order[member.node])
        yield Claim(node=member.node, spec=spec, claims=candidate.task, reason=Reason.CLAIMED, message=message)


def _reopen(rollout: RolloutView, found: Reopening) -> Reopen:
    """Let a node wait for its turn like any other."""
    spec = replace(
        found.task.spec,
        run_id=new_run_id(rollout.upgrade.uid, rollout.now),
        action=TaskAction.WAIT,
        action_reason="",
        action_message="",
        retry=found.retry,
        deadline=None,
        guard=GuardGrant(),
        verdict=None,
        history=found.task.past_runs(rollout.upgrade.status.last_handled_retry),
    )
    message = f"node {found.task.name} waits for its turn again: {found.because}"
    return Reopen(task=found.task, spec=spec, reason=Reason.REOPENED, message=message)


def admissions(rollout: RolloutView, ready: Sequence[NodeState], decision: StartDecision) -> tuple[Admit | Hold, ...]:
    """Return the admissions; if there is none although nodes are pending, why."""
    if ready or not decision.message:
        return tuple(_admit(member.candidate) for member in ready if member.candidate is not None)
    if not any(member.place in {Place.PENDING, Place.HELD} for member in rollout.members.values()):
        return ()
    return (Hold(reason=decision.reason, message=decision.message),)


def _admit(candidate: Candidate) -> Admit:
    node, target = candidate.node.name, candidate.target
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(candidate))
    planning = candidate.spec.action is RolloutAction.PLAN
    purpose = "be examined for" if planning else f"go from {candidate.current} to"
    return Admit(node=node, reason=Reason.ADMITTED, message=f"node {node} takes a slot to {purpose} {target}{notes}")


def leave(upgrade: Upgrade, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer; the tasks stay, and no longer hold their nodes once their runs are over."""
    if not upgrade.has_finalizer:
        return ()
    message = "the NodeUpgrade is abandoned" if abandoned else "no node is in flight any more"
    return (RemoveFinalizer(reason=Reason.DELETING, message=message),)


def ignore_retry(upgrade: Upgrade) -> tuple[NodeAction, ...]:
    """Return the actions that ignore a retry of an aborted rollout, and say so."""
    message = sentence(Reason.RETRY_IGNORED, f"retry {upgrade.retry} is ignored because the rollout was aborted")
    handled = replace(upgrade.status, last_handled_retry=upgrade.retry)
    return (
        WriteStatus(status=handled, reason=Reason.RETRY_IGNORED, message=upgrade.status.phase),
        Report(reason=Reason.RETRY_IGNORED, message=message, warning=True),
    )
