"""Cleaning up after a node in flight, in order, before its slot is free.

A node whose Node object is gone is waited for: a kubelet that starts registers its Node again. Until then nothing can
be learned about the run, and the slot is kept.
"""

from datetime import datetime

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, TaskAction
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.strategy import Timeouts
from nodeupgrade.api.values import RunKind, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.actions import DeleteAgent, FreeSlot, Judge, NodeAction, ReleaseTask, RestoreCordon, Wait
from nodeupgrade.fleet.decide.in_flight import InFlight
from nodeupgrade.fleet.guard import lifecycle
from nodeupgrade.fleet.hooks import hooks


def end(flight: InFlight, node: NodeView, task: Task) -> tuple[NodeAction, ...]:
    """Clean up after the verdict: guard, cordon, agent, hooks and task; once nothing of it remains, free the slot."""
    name, verdict = node.name, task.verdict
    lost = verdict is not None and verdict.outcome is Verdict.ROLLBACK_FAILED
    remains = list[NodeAction]()
    if (lifting := lifecycle.lift(flight.guard, task, flight.now)) is not None:
        remains.append(lifting)
    if not lost and flight.cordoned_by_us:
        message = f"node {name} is schedulable again"
        remains.append(RestoreCordon(view=node, reason=Reason.UNCORDONED, message=message))
    message = f"the run on node {name} is over"
    remains += [DeleteAgent(pod=pod, reason=Reason.PROGRESSING, message=message) for pod in flight.leftover_pods]
    if (hook := hooks.after(task, flight.hook_jobs, flight.hook_refused, flight.now)) is not None:
        return (*remains, hook)
    if not lost and task.kind is RunKind.UPGRADE and task.spec.action is not TaskAction.RELEASE:
        message = f"node {name} is accounted for"
        remains.append(ReleaseTask(task=task, reason=Reason.PROGRESSING, message=message))
    if remains:
        return tuple(remains)
    reason = Reason.ROLLBACK_FAILED if lost else Reason.PROGRESSING
    message = f"node {name} stays cordoned until it is repaired" if lost else f"node {name} is done"
    return (FreeSlot(node=name, reason=reason, message=message, judged=_judged(flight)),)


def end_without_task(flight: InFlight, node: NodeView, failure: NodeFailure) -> NodeAction:
    """Clean up after a run whose verdict is on record, and whose task is gone."""
    name = node.name
    if flight.cordoned_by_us and failure.outcome is not Verdict.ROLLBACK_FAILED:
        return RestoreCordon(view=node, reason=Reason.UNCORDONED, message=f"node {name} is schedulable again")
    if pods := flight.leftover_pods:
        return DeleteAgent(pod=pods[0], reason=Reason.PROGRESSING, message=f"the run on node {name} is over")
    return FreeSlot(node=name, reason=Reason.PROGRESSING, message=f"node {name} is done")


def clear_away(flight: InFlight, message: str, failure: NodeFailure | None = None) -> NodeAction:
    """Delete the agent of a node on which nothing can or need be done, release its task, then free its slot.

    The task outlives the slot: without it, the slot would look like one whose run may continue.
    """
    if pods := flight.leftover_pods:
        return DeleteAgent(pod=pods[0], reason=Reason.NODE_NOT_FOUND, message=message)
    if (task := flight.known.own) is not None:
        if (hook := hooks.after(task, flight.hook_jobs, flight.hook_refused, flight.now)) is not None:
            return hook
        if task.open:
            return ReleaseTask(task=task, reason=Reason.NODE_NOT_FOUND, message=message)
    reason = Reason.NODE_NOT_FOUND if failure is None else Reason.NODE_LOST
    return FreeSlot(node=flight.name, reason=reason, message=message, failure=failure, judged=_judged(flight))


def gone(flight: InFlight) -> NodeAction:
    """Handle a missing Node: after a run may have begun, wait, since a starting kubelet registers its Node again."""
    name, task = flight.name, flight.known.own
    message = f"node {name} does not exist any more"
    if not flight.missing:
        return clear_away(flight, message)
    if not _is_given_up(flight):
        message = f"{message}, but its run may continue and its kubelet may register it again"
        return Wait(node=name, reason=Reason.NODE_NOT_FOUND, message=message)
    lost = sentence(Reason.NODE_LOST, f"node {name} was deleted during its run and has not registered again")
    if task is None:
        return clear_away(flight, message, _lost_failure(flight, lost))
    verdict = RunVerdict(
        run_id=task.spec.run_id,
        outcome=Verdict.FAILED,
        reason=Reason.NODE_LOST,
        message=lost,
        decided_at=flight.now,
    )
    return Judge(task=task, verdict=verdict, reason=verdict.reason, message=lost)


def _judged(flight: InFlight) -> datetime | None:
    """Return when the run of the slot was judged; None if it was not, or refused, which prolongs no soak."""
    task = flight.known.task
    if task is None or task.spec.upgrade_ref.uid != flight.upgrade.uid or task.verdict is None:
        return None
    return None if task.verdict.outcome is Verdict.REFUSED else task.verdict.decided_at


def _is_given_up(flight: InFlight) -> bool:
    """Report whether a missing node has been waited for long enough: ``timeouts.node``, and its own deadline."""
    if flight.slot.missing_since is None:
        return False  # it is not on record yet since when
    spec, task = flight.upgrade.spec, flight.known.own
    ends = [flight.slot.missing_since + (Timeouts() if spec is None else spec.timeouts).node]
    ends += [task.spec.deadline] if task is not None and task.spec.deadline is not None else []
    return flight.now > max(ends)


def _lost_failure(flight: InFlight, message: str) -> NodeFailure:
    """Return what is put on record of a node that did not come back, and whose task is gone as well."""
    return NodeFailure(
        node=flight.name,
        reason=Reason.NODE_LOST.value,
        step="run",
        message=shorten(message, FAILURE_MESSAGE_LENGTH),
        time=flight.now,
        uid=flight.slot.uid,
        wave=flight.slot.wave,
        outcome=Verdict.FAILED,
    )
