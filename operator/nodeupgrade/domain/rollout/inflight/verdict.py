"""The control plane's own verification of a node after a run, independent of what the node side reports."""

from datetime import datetime

from nodeupgrade.api.limits import CONTAINERS_LISTED, shorten
from nodeupgrade.api.printable import printable
from nodeupgrade.api.reasons import Reason, counted, sentence
from nodeupgrade.api.shared.run_settings import StaticPodPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, Verdict
from nodeupgrade.api.task.status import StepResult, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pods import Pod
from nodeupgrade.domain.rollout.inflight import baseline

_OUTCOMES = {
    TaskPhase.PRECHECKED: Verdict.PRECHECKED,
    TaskPhase.SUCCEEDED: Verdict.SUCCEEDED,
    TaskPhase.REFUSED: Verdict.REFUSED,
    TaskPhase.FAILED: Verdict.FAILED,
    TaskPhase.ROLLED_BACK: Verdict.ROLLED_BACK,
    TaskPhase.ROLLBACK_FAILED: Verdict.ROLLBACK_FAILED,
}


def decide_verdict(node: NodeView, task: Task, pods: tuple[Pod, ...] | None, now: datetime) -> RunVerdict | Finding:
    """Return the verdict on a finished run, or a finding if it must wait.

    Args:
        node: The node as it is now.
        task: Its task; the status of the current run is terminal.
        pods: The node's pods as they are now; None if they have not been read. A run that touched nothing does not
            need them.
        now: Wall-clock time, UTC.
    """
    status = task.reported
    touched = was_touched(status)
    if touched and pods is None:
        return _not_yet("its pods have not been read yet")
    if touched and (unready := _unready(node, task)) and _may_still_become_ready(task, now):
        return _not_yet(unready)
    listed = _restarted(task, pods or ()) if touched else status.containers.restarted_list
    count = max(len(listed), status.containers.restarted)
    outcome, reason, because = _outcome(node, task, listed, count)
    noted = _readiness(task, pods or ())
    return RunVerdict(
        run_id=task.spec.run_id,
        outcome=outcome,
        reason=reason,
        message=shorten(printable(f"{because.removesuffix('.')}. {noted}." if noted else because)),
        restarted=count,
        restarted_list=listed[:CONTAINERS_LISTED],
        decided_at=now,
    )


def _not_yet(detail: str) -> Finding:
    return Finding(reason=Reason.NOT_YET_VERIFIED, detail=detail, remedy="")


def was_touched(status: TaskStatus) -> bool:
    """Report whether a finished run may have changed anything on the node."""
    return any(step.name == Step.STOP_KUBELET for step in status.steps) or status.phase is TaskPhase.SUCCEEDED


def _outcome(node: NodeView, task: Task, listed: tuple[str, ...], count: int) -> tuple[Verdict, Reason, str]:
    status = task.reported
    if status.phase is not TaskPhase.SUCCEEDED:
        reason = Reason.PRECHECKED if status.phase is TaskPhase.PRECHECKED else _known(status)
        return _OUTCOMES[status.phase], reason, status.message or sentence(reason, f"node {node.name}: {status.phase}")
    if count:
        summary = f"node {node.name} runs {node.kubelet_version} and {count} of its containers restarted"
        because = f"{summary}: {_named(listed, count)}"
        return Verdict.FAILED, Reason.CONTAINER_RESTARTED, sentence(Reason.CONTAINER_RESTARTED, because)
    if unready := _unready(node, task):
        return Verdict.FAILED, Reason.VERIFICATION_FAILED, sentence(Reason.VERIFICATION_FAILED, unready)
    same = counted(status.containers.unchanged, "container")
    done = f"node {node.name} runs {task.spec.to_version}; {same} counted, each the instance it was before"
    if recreated := status.containers.recreated:
        done = f"{done}; besides, {counted(recreated, 'container')} of static pods replaced on request"
    return Verdict.SUCCEEDED, Reason.SUCCEEDED, sentence(Reason.SUCCEEDED, done)


def _readiness(task: Task, pods: tuple[Pod, ...]) -> str:
    """Describe what clients of the pods may have noticed; it does not fail a run that restarted nothing."""
    flaps, before = task.reported.containers.readiness_flaps, baseline.parse(task.baseline)
    unready = () if before is None else baseline.no_longer_ready(before, pods)
    later = _restarted_later(task, pods)
    least = "at least " if len(flaps) == CONTAINERS_LISTED else ""
    notes = (
        f"{least}{counted(len(flaps), 'pod')} reported unready meanwhile: {_named(flaps)}" if flaps else "",
        f"{counted(len(unready), 'pod')} Ready before and not now: {_named(unready)}" if unready else "",
        f"{counted(len(later), 'container')} restarted after the kubelet had settled: {_named(later)}" if later else "",
    )
    return "; ".join(filter(None, notes))


def _named(names: tuple[str, ...], count: int = 0) -> str:
    """Join the first three names, with an ellipsis if there are more (``count``, if that is larger)."""
    return ", ".join(names[:3]) + (" …" if max(count, len(names)) > 3 else "")


def _known(status: TaskStatus) -> Reason:
    """Return the reason that the node side reported; a newer agent may use one that is unknown here."""
    try:
        return Reason(status.reason)
    except ValueError:
        return Reason.FAILED


def _unready(node: NodeView, task: Task) -> str | None:
    """Return what the node still lacks, or None: it must be Ready and, after a success, run the target version."""
    expected = task.spec.to_version if task.reported.phase is TaskPhase.SUCCEEDED else None
    if expected is not None and node.kubelet_version != expected:
        return f"node {node.name} reports kubelet {node.kubelet_version}, not {expected}"
    return None if node.ready else f"node {node.name} is not Ready"


def _may_still_become_ready(task: Task, now: datetime) -> bool:
    finished = task.reported.finished_at
    timeout = task.spec.verify.node_ready_timeout
    return finished is not None and now < finished + timeout


def _restarted(task: Task, pods: tuple[Pod, ...]) -> tuple[str, ...]:
    """Return the restarted containers: those the node side saw and those the API shows, since either may miss some.

    The API does not distinguish a container that ended by itself from one that a kubelet replaced; only the node side
    can tell. Restarts after the kubelet had settled, while its probes were awaited, are not caused by the run.
    """
    counts = task.reported.containers
    seen = _seen_restarted(task, pods, _settled_at(task.reported))
    return tuple(sorted({*seen, *counts.restarted_list} - {*counts.ended_list}))


def _restarted_later(task: Task, pods: tuple[Pod, ...]) -> tuple[str, ...]:
    """Return containers that restarted after the kubelet had settled."""
    all_seen = _seen_restarted(task, pods, None)
    return tuple(sorted({*all_seen} - {*_restarted(task, pods), *task.reported.containers.ended_list}))


def _seen_restarted(task: Task, pods: tuple[Pod, ...], until: datetime | None) -> tuple[str, ...]:
    before = baseline.parse(task.baseline)
    if task.spec.kubelet.static_pods is StaticPodPolicy.RECREATE:  # these restart on request
        pods = tuple(pod for pod in pods if not pod.mirror)
    return () if before is None else baseline.restarted(before, pods, _kubelet_stopped_at(task.reported), until)


def _settled_at(status: TaskStatus) -> datetime | None:
    """Return when the run stopped watching containers, or None if it never got there."""
    settled = (step.finished_at for step in status.steps if step.name == Step.VERIFY and step.result is StepResult.DONE)
    return next(settled, None)


def _kubelet_stopped_at(status: TaskStatus) -> datetime | None:
    """Return when the kubelet was stopped; earlier restarts are not caused by the run."""
    stopped = (step.started_at for step in status.steps if step.name == Step.STOP_KUBELET)
    return next(stopped, status.started_at)
