"""The control plane's own verification of a node after a run, independent of what the node side reports."""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.limits import CONTAINERS_LISTED, shorten
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.run_settings import StaticPodPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, Verdict
from nodeupgrade.api.task.status import StepResult, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.wording import counted, printable, sentence
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pod_restart_rules import may_restart_whole
from nodeupgrade.domain.pods import ContainerStatus, Pod

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
    seen = _restarts(task, pods or (), now)
    listed = _sorted(seen.caused) if touched else status.containers.restarted_list
    count = max(len(listed), status.containers.restarted)
    outcome, reason, because = _outcome(node, task, listed, count)
    noted = _readiness(task, pods or (), seen)
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
        reported = known_reason(status.reason) or Reason.FAILED  # a newer agent may use one that is unknown here
        reason = Reason.PRECHECKED if status.phase is TaskPhase.PRECHECKED else reported
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


def _readiness(task: Task, pods: tuple[Pod, ...], seen: "_Restarts") -> str:
    """Describe what clients of the pods may have noticed; it does not fail a run that restarted nothing.

    That includes what the API shows as restarted and only the node side can excuse.
    """
    flaps, before = task.reported.containers.readiness_flaps, parse_baseline(task.baseline)
    notes = (
        (flaps, "pod", "reported unready meanwhile"),
        (() if before is None else no_longer_ready(before, pods), "pod", "Ready before and not now"),
        (_sorted(seen.later), "container", "restarted after the kubelet had settled"),
        (_sorted(seen.excused), "container", "not ended by the kubelet, as the node reports"),
        (_sorted(seen.earlier), "container", "restarted before the run, as the node reports"),
    )
    told = "; ".join(f"{counted(len(names), what)} {how}: {_named(names)}" for names, what, how in notes if names)
    return f"at least {told}" if len(flaps) == CONTAINERS_LISTED else told


def _named(names: tuple[str, ...], count: int = 0) -> str:
    """Join the first three names, with an ellipsis if there are more (``count``, if that is larger)."""
    return ", ".join(names[:3]) + (" …" if max(count, len(names)) > 3 else "")


def _unready(node: NodeView, task: Task) -> str | None:
    """Return what the node still lacks, or None: it must be Ready and, after a success, run the target version."""
    expected = task.spec.to_version if task.reported.phase is TaskPhase.SUCCEEDED else None
    if expected is not None and node.kubelet_version != expected:
        return f"node {node.name} reports kubelet {node.kubelet_version}, not {expected}"
    return None if node.ready else f"node {node.name} is not Ready"


def _may_still_become_ready(task: Task, now: datetime) -> bool:
    """Report whether it is waited for: from the end of the run, which by our clock is not after the deadline."""
    ends = [each for each in (task.reported.finished_at, task.spec.deadline) if each is not None]
    return task.reported.finished_at is not None and now < min(ends) + task.spec.verify.node_ready_timeout


def _sorted(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restarts:
    """The containers that are no longer the instance of the baseline, or were restarted as the node side saw."""

    # restarted by the run: those the node side saw and those the API shows, since either may miss some. Restarts after
    # the kubelet had settled, while its probes were awaited, are not caused by the run.
    caused: frozenset[str]
    later: frozenset[str]  # restarted after the kubelet had settled
    earlier: frozenset[str]  # restarted after the baseline and, as the node side reports, before the kubelet stopped
    # ended by themselves: only the node side can tell that from a kubelet's doing. It is believed as far as the API
    # shows nothing else, and the verdict names what depends on it.
    excused: frozenset[str]


def _restarts(task: Task, pods: tuple[Pod, ...], now: datetime) -> _Restarts:
    before, stopped = parse_baseline(task.baseline), _stopped_at(task, now)
    if task.spec.kubelet.static_pods is StaticPodPolicy.RECREATE:  # these restart on request
        compared = tuple(pod for pod in pods if not pod.mirror)
    else:
        compared = pods

    def seen(since: datetime | None, until: datetime | None) -> frozenset[str]:
        return frozenset() if before is None else frozenset(restarted(before, compared, since, until))

    every, since_stop = seen(None, None), seen(stopped, None)
    ended = _ended(task, pods, every)
    caused = (seen(stopped, _settled_at(task, now)) | {*task.reported.containers.restarted_list}) - ended
    return _Restarts(
        caused=caused, later=since_stop - caused - ended, earlier=every - since_stop, excused=ended & every
    )


def _ended(task: Task, pods: tuple[Pod, ...], seen: frozenset[str]) -> frozenset[str]:
    """Return the containers that ended by themselves, as the node side reports and the API does not contradict.

    It does if the instance was killed, or if nothing is known of its end and it was not named beforehand as one that
    may end with the runtime. One that a rule of its pod had restarted was killed too: the API has to show both the
    restart and the rule. A container that ended with its pod is not shown by the API any more.
    """
    shown = {f"{pod}/{container.name}": container for pod in pods for container in pod.statuses}
    ruled = {str(pod) for pod in pods if may_restart_whole(pod)}
    connected = _connected_to_runtime(task)

    def contradicted(name: str) -> bool:
        code = shown[name].previous_exit_code
        if shown[name].restarted_with_pod:
            return name.rpartition("/")[0] not in ruled
        return code in _KILLED and not (code == _LOST and name in connected)

    reported = task.reported.containers.ended_list
    return frozenset(name for name in reported if name not in seen or not contradicted(name))


_LOST = 255
"""Exit code of instances of which the runtime does not know how they ended."""
_KILLED = frozenset({None, 137, 143, _LOST})
"""Exit codes of instances that were ended by a signal, or of which nothing is known."""


def _connected_to_runtime(task: Task) -> frozenset[str]:
    """Return the containers that the node side named before the run because its runtime's restart might end them."""
    named = (h for h in task.reported.hazards if h.warning and h.reason == Reason.RUNTIME_CONNECTION_LOST)
    return frozenset(name for hazard in named for name in (hazard.pod, *hazard.others))


def _settled_at(task: Task, now: datetime) -> datetime | None:
    """Return when the run stopped watching containers; None if it never got there, or if that cannot be true.

    By the control plane's clock, it is over now, and it has lasted for the settle period since the kubelet stopped.
    """
    steps, stopped = task.reported.steps, _stopped_at(task, now)
    done = (step.finished_at for step in steps if step.name == Step.VERIFY and step.result is StepResult.DONE)
    settled = next(done, None)
    if settled is None or stopped is None or not stopped + task.spec.verify.settle <= settled <= now:
        return None
    return settled


def _stopped_at(task: Task, now: datetime) -> datetime | None:
    """Return when the kubelet was stopped, or None if that cannot be true; earlier restarts are not the run's doing.

    Without it, whatever has restarted since the baseline counts.
    """
    status = task.reported
    reported = (step.started_at for step in status.steps if step.name == Step.STOP_KUBELET)
    stopped = next(reported, status.started_at)
    return stopped if stopped is not None and stopped <= now else None


# The baseline: a node's containers as the API shows them before a run, for comparison afterwards.
#
# The node side compares far more (processes, their monitors, start times). The baseline is a second opinion from a
# source that the node side does not control: container identity and restart count in pod status. It is compact because
# it is kept in an annotation, so that it outlives the operator.

_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Baseline:
    """The running containers and the Ready pods of a node.

    The UID of a mirror pod is left empty: the kubelet may recreate the mirror without touching the static pod.
    """

    # running ones by ``namespace/pod/container``: pod UID, prefix of the container ID, restart count
    containers: Mapping[str, tuple[str, str, int]]
    ready: Mapping[str, str] = field(default_factory=dict)  # UIDs of the pods that were Ready, by ``namespace/pod``


def capture_baseline(pods: Iterable[Pod]) -> Baseline:
    """Return the baseline of pods that are neither terminating nor finished."""
    staying = [pod for pod in pods if not pod.terminating and not pod.finished]
    return Baseline(
        {
            f"{pod}/{container.name}": (_uid(pod), _short(container.container_id), container.restart_count)
            for pod in staying
            for container in pod.statuses
            if container.running
        },
        {str(pod): _uid(pod) for pod in staying if pod.ready},
    )


def restarted(
    baseline: Baseline, pods: Iterable[Pod], since: datetime | None, until: datetime | None = None
) -> tuple[str, ...]:
    """Return the containers that are no longer the same instance, as ``namespace/pod/container``.

    A pod that is gone was deleted and does not count as a restart; nor does a pod of the same name with another UID.

    Args:
        since: When the kubelet was stopped; an instance that ended earlier crashed by itself.
        until: When the new kubelet had settled; a single restart after that does not count. With a startup probe it
            does: a kubelet that lost its result runs the probe again, and kills the container if it fails now.
    """
    changed = []
    for pod in pods:
        for container in pod.statuses:
            label = f"{pod}/{container.name}"
            before = baseline.containers.get(label)
            if before is None or before[0] != _uid(pod) or not container.container_id or _same(before, container):
                continue
            ended, once = container.previous_finished_at, container.restart_count == before[2] + 1
            earlier = since is not None and ended is not None and ended < since.replace(microsecond=0)
            later = until is not None and ended is not None and ended > until and once
            later = later and not container.startup_probed
            if not earlier and not later:
                changed.append(label)
    return tuple(sorted(changed))


def no_longer_ready(baseline: Baseline, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the pods that were Ready and are not now, except those that are terminating or finished."""
    unready = (pod for pod in pods if not (pod.ready or pod.leaving))
    return tuple(sorted(str(pod) for pod in unready if baseline.ready.get(str(pod)) == _uid(pod)))


def render_baseline(baseline: Baseline) -> str:
    """Encode a baseline as compressed text for an annotation."""
    content = {"containers": baseline.containers, "ready": baseline.ready}
    document = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(document.encode(), 9)).decode()


def parse_baseline(text: str) -> Baseline | None:
    """Decode a baseline; return None if the text is not one.

    A run that an earlier version of this program began may have a baseline without ready pods, only containers.
    """
    try:
        document = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        content = document if "containers" in document else {"containers": document}  # its keys contain slashes
        containers = {label: (uid, start, count) for label, (uid, start, count) in content["containers"].items()}
        return Baseline(containers, dict(content.get("ready") or {}))
    except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError):
        return None


def _same(before: tuple[str, str, int], container: ContainerStatus) -> bool:
    return before[1:] == (_short(container.container_id), container.restart_count)


def _uid(pod: Pod) -> str:
    return "" if pod.mirror else pod.uid


def _short(container_id: str) -> str:
    return container_id.rpartition("/")[2][:_ID_CHARACTERS]
