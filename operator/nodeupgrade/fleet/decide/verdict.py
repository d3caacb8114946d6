"""The control plane's own verification of a node after a run, independent of what the node side reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.printable import stored
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.run_settings import StaticPodPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.task.status import OwnerChange, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.owner_changes import owner_change, seen_in
from nodeupgrade.cluster.pods import ContainerStatus, Pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.baseline import Baseline

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
        task: The node's task; the status of the current run is terminal.
        pods: The node's pods as they are now; None if they have not been read. A run that touched nothing does not
            need them.
    """
    status = task.reported
    touched = was_touched(status)
    if touched and pods is None:
        return _not_yet("its pods have not been read yet")
    if touched and (unready := _unready(node, task)) and _may_still_become_ready(task, now):
        return _not_yet(unready)
    before = Baseline.parse(task.baseline) or Baseline({})
    seen = _restarts(task, before, pods or (), now)
    listed = tuple(sorted(seen.caused)) if touched else status.containers.restarted_list
    count = max(len(listed), status.containers.restarted)
    outcome, reason, because = _outcome(node, task, listed, count)
    noted = _readiness(task, before, pods or (), seen)
    return RunVerdict(
        run_id=task.spec.run_id,
        outcome=outcome,
        reason=reason,
        message=stored(f"{because.removesuffix('.')}. {noted}." if noted else because),
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
        reported = known_reason(status.reason) or Reason.FAILED  # a newer agent may use one that is unknown here
        reason = Reason.PRECHECKED if status.phase is TaskPhase.PRECHECKED else reported
        outcome = _OUTCOMES[status.phase]
        if count and outcome is Verdict.REFUSED:  # its kubelet was stopped, and the API shows what the node does not
            outcome = Verdict.ROLLED_BACK
        return outcome, reason, status.message or sentence(reason, f"node {node.name}: {status.phase}")
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


def _readiness(task: Task, before: Baseline, pods: tuple[Pod, ...], seen: "_Restarts") -> str:
    """Describe what clients of the pods may have noticed, and restarts that only the node side excuses.

    It does not fail a run that restarted nothing.
    """
    flaps = task.reported.containers.readiness_flaps
    notes = (
        (flaps, "pod", "reported unready meanwhile"),
        (before.no_longer_ready(pods), "pod", "Ready before and not now"),
        (sorted(seen.excused), "container", "not ended by the kubelet, as the node reports"),
        (sorted(seen.changed), "container", "changed by their owners"),
        (sorted(seen.earlier), "container", "restarted before the run or between its attempts, as the node reports"),
    )
    text = "; ".join(f"{counted(len(names), what)} {how}: {_named(names)}" for names, what, how in notes if names)
    return f"at least {text}" if len(flaps) == CONTAINERS_LISTED else text


def _named(names: Sequence[str], count: int = 0) -> str:
    """Join the first three names, with an ellipsis if there are more (``count``, if that is larger)."""
    return ", ".join(names[:3]) + (" …" if max(count, len(names)) > 3 else "")


def _unready(node: NodeView, task: Task) -> str | None:
    """Return why the node is not Ready with, after a success, the target version; None if it is."""
    expected = task.spec.to_version if task.reported.phase is TaskPhase.SUCCEEDED else None
    if expected is not None and node.kubelet_version != expected:
        return f"node {node.name} reports kubelet {node.kubelet_version}, not {expected}"
    return None if node.ready else f"node {node.name} is not Ready"


def _may_still_become_ready(task: Task, now: datetime) -> bool:
    """Report whether it is waited for: from the end of the run, which by our clock is not after the deadline."""
    ends = [each for each in (task.reported.finished_at, task.spec.deadline) if each is not None]
    return task.reported.finished_at is not None and now < min(ends) + task.spec.verify.node_ready_timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restarts:
    """The containers that are no longer the instance of the baseline, or were restarted as the node side saw."""

    # restarted by the run: those the node side saw and those the API shows until now, since either may miss some
    caused: frozenset[str]
    # restarted after the baseline and, as the node side reports, before the kubelet stopped or between attempts
    earlier: frozenset[str]
    # ended by themselves, which only the node side can distinguish from an end by the kubelet. It is believed unless
    # the API shows otherwise, and the verdict names these containers.
    excused: frozenset[str]
    # restarted since their owners wanted it: as the API shows, which the node side does not contradict; or as that
    # reports, of static pods, of which the API shows only what the kubelet writes, and of images that were set back
    changed: frozenset[str] = frozenset()


def _restarts(task: Task, before: Baseline, pods: tuple[Pod, ...], now: datetime) -> _Restarts:
    recreated = task.spec.kubelet.static_pods is StaticPodPolicy.RECREATE  # static pods restart on request
    compared = tuple(pod for pod in pods if not (recreated and pod.mirror))
    stopped = _stopped_at(task, now)
    # After a success, no interval is open: an attempt came after it.
    is_over = task.reported.phase is TaskPhase.SUCCEEDED
    between = tuple(each for each in task.reported.between_attempts if each.until is not None or not is_over)
    failed = frozenset(before.failed_by_kubelet(compared, stopped, between))
    every = failed.union(before.restarted(compared, None))
    since_stop = failed.union(before.restarted(compared, stopped, between))
    early = _ended_early(task, pods, since_stop, stopped, now)
    ended = _ended(task, pods, every, early, now) - failed
    restarted = frozenset(task.reported.containers.restarted_list)
    changed = _changed(task, before, pods, since_stop) - restarted - ended
    ended |= _ended_unnamed(task, pods, since_stop - failed - ended - changed - restarted, now)
    return _Restarts(
        caused=(since_stop - ended - changed) | restarted,
        earlier=every - since_stop,
        excused=ended & every,
        changed=changed,
    )


def _changed(task: Task, before: Baseline, pods: tuple[Pod, ...], seen: frozenset[str]) -> frozenset[str]:
    planned, evidence = before.owned, seen_in(before.owned, pods)
    reported = task.reported.containers.owner_changes
    manifests = {each.name for each in reported if each.change.of_manifest}
    images = {each.name for each in reported if each.change is OwnerChange.IMAGE_CHANGED}

    def changed(pod: Pod, label: str, name: str) -> bool:
        if pod.mirror:
            return str(pod) in manifests
        taken_back = label in images and before.spec_was_changed(pod)
        return taken_back or owner_change(planned, evidence, pod.ref.uid, name) is not None

    return frozenset(
        label
        for pod in pods
        for label, name in ((f"{pod}/{container.name}", container.name) for container in pod.statuses)
        if label in seen and changed(pod, label, name)
    )


_LOST = 255
"""Exit code of an instance whose end the runtime does not know."""
_KILLED = frozenset({None, 137, 143, _LOST})
"""Exit codes of instances that were ended by a signal, or whose end is unknown."""


def _ended(
    task: Task, pods: tuple[Pod, ...], seen: frozenset[str], early: frozenset[str], now: datetime
) -> frozenset[str]:
    """Return the containers that ended by themselves, as the node side reports and the API does not contradict.

    So did those that ended ``early``, in whose place the node side planned what ran at the kubelet's stop.

    The API does if the instance was killed, or if its end is unknown, unless it ended while no kubelet ran or was named
    beforehand as one that may end with the runtime. It does not show containers that ended with their pod.
    """
    contradicted = _contradicted(task, pods, seen, now)
    reported = (*task.reported.containers.ended_list, *early)
    return frozenset(name for name in reported if name not in contradicted)


def _ended_unnamed(task: Task, pods: tuple[Pod, ...], unexplained: frozenset[str], now: datetime) -> frozenset[str]:
    """Return those that are among the rest of what ended by itself, which the node side counted but did not name.

    That is known only if it counted as many: each of these, then, or none.
    """
    found = unexplained - _contradicted(task, pods, unexplained, now)
    counts = task.reported.containers
    return found if len(found) <= counts.ended - len(counts.ended_list) else frozenset()


def _contradicted(task: Task, pods: tuple[Pod, ...], names: frozenset[str], now: datetime) -> frozenset[str]:
    """Return the containers that did not end by themselves, as far as the API shows."""
    shown, connected = _shown(pods), _connected_to_runtime(task)

    def contradicted(name: str) -> bool:
        if name not in shown:
            return True
        code = shown[name].previous_exit_code
        lost = code == _LOST and (name in connected or _without_kubelet(task, shown[name].previous_finished_at, now))
        return code in _KILLED and not lost

    return frozenset(filter(contradicted, names))


def _ended_early(
    task: Task, pods: tuple[Pod, ...], since_stop: frozenset[str], stopped: datetime | None, now: datetime
) -> frozenset[str]:
    """Return the containers that ended while the kubelet was being stopped, before the run touched anything.

    Their last ends count, as the API shows them: what ended then may be restarted by the new kubelet later.
    """
    status = task.reported
    confirmed = next((each.started_at for each in status.steps if each.name == Step.CONFIRM_INVENTORY), None)
    if stopped is None or confirmed is None or confirmed > now:
        return frozenset()
    stops = (stopped, *(each.until for each in status.between_attempts if each.until is not None))
    last = max(stops).replace(microsecond=0)
    ends = {name: each.previous_finished_at for name, each in _shown(pods).items()}
    return frozenset(name for name in since_stop if (at := ends.get(name)) is not None and last <= at <= confirmed)


def _without_kubelet(task: Task, ended: datetime | None, now: datetime) -> bool:
    """Report whether this was after the kubelet's stop, and before the start of the new one."""
    stopped = _stopped_at(task, now)
    started = next((each.started_at for each in task.reported.steps if each.name == Step.START_KUBELET), None)
    if stopped is None or started is None or ended is None or started > now:
        return False
    return stopped.replace(microsecond=0) <= ended <= started


def _shown(pods: tuple[Pod, ...]) -> dict[str, ContainerStatus]:
    return {f"{pod}/{container.name}": container for pod in pods for container in pod.statuses}


def _connected_to_runtime(task: Task) -> frozenset[str]:
    """Return the containers that the node side named before the run because its runtime's restart might end them."""
    named = (h for h in task.reported.hazards if h.warning and h.reason == Reason.RUNTIME_CONNECTION_WOULD_BREAK)
    return frozenset(name for hazard in named for name in (hazard.pod, *hazard.others))


def _stopped_at(task: Task, now: datetime) -> datetime | None:
    """Return when the kubelet was stopped, or None if that cannot be true; earlier restarts are not the run's doing.

    Without it, whatever has restarted since the baseline counts.
    """
    status = task.reported
    reported = (step.started_at for step in status.steps if step.name == Step.STOP_KUBELET)
    stopped = next(reported, status.started_at)
    return stopped if stopped is not None and stopped <= now else None
