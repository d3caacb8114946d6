"""Decide whether the new kubelet ended a container, or whether it would have ended anyway.

A container that a kubelet replaces looks like one that crashed, or whose pod was deleted. Only evidence distinguishes
them, and anything unproven counts as damage by the kubelet:

* *It ended by itself.* A kubelet ends a container only by a request to the runtime (StopContainer, StopPodSandbox),
  which logs each request before it acts. So the log must be complete and contain no such request, the sandbox must be
  ready, and the exit code must not be that of a SIGKILL. (The kernel sends one when out of memory, perhaps due to a
  smaller limit that a kubelet set for all pods; so does a runtime that lost track of a container.)
* *It ended without a kubelet*, by itself while the runtime restarted: the new kubelet started later. It was connected
  to the runtime (docs/decisions/runtime-clients.md), crashed again within minutes, or may have completed.
* *Its pod is over.* Every regular container has ended by itself or with exit code 0 and is not started again, so a
  kubelet stops the sidecars and the sandbox.
* *Its owner changed it*: deleted the pod, changed the image, edited the manifest (cluster/owner_changes.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.cluster import owner_changes
from nodeupgrade.cluster.owner_changes import owner_change, was_taken_back
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, SandboxInstance
from nodeupgrade.node.verification.ended_pods import is_final, is_over
from nodeupgrade.node.verification.verification import Difference, DifferenceKind

LOST = 255
"""Exit code of a container whose end the runtime did not observe."""
KILLED = frozenset({137, LOST})
"""Exit codes that prove nothing: those of a SIGKILL and of a container that the runtime lost."""
LOOPS_WITHIN = 600
"""Seconds. A container that has run for longer is in no crash loop: a kubelet forgets its back-off by then."""
TERMINATED = 143
"""Exit code of a SIGTERM: the container was requested to end."""
_FOR_GOOD = frozenset({DifferenceKind.STOPPED, DifferenceKind.RESTARTED})
_ENDS = frozenset({DifferenceKind.STOPPED, DifferenceKind.ENDING, DifferenceKind.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence besides the inventory."""

    # containers and sandboxes that the runtime was requested to stop since the kubelet's start, or longer; None if its
    # log is not reliable
    asked: frozenset[str] | None = None
    owners: owner_changes.Evidence = owner_changes.Evidence()
    # containers that ended with the runtime, as recorded before the new kubelet was started
    with_runtime: frozenset[ContainerId] = frozenset()
    # containers that were seen to have ended by themselves: what is asked of their pod later changes nothing of that
    fell: frozenset[ContainerId] = frozenset()
    # containers that were seen to be over before; a kubelet may have removed what was left of them since
    over: frozenset[ContainerId] = frozenset()
    # containers that were seen to have ended since their owners had changed them, and pods of which one was: a kubelet
    # ends all of such a pod. The change may have been taken back since.
    changed: frozenset[ContainerId | PodUid] = frozenset()
    shielded: bool = False  # whether the shield is planned, and its process was ready when it was to be raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """Differences, divided by their cause."""

    damage: tuple[Difference, ...]  # differences that the kubelet may have caused
    ended: tuple[Difference, ...] = ()  # what ended by itself or with its pod; harmless
    changed: tuple[Difference, ...] = ()  # what its owner changed; harmless

    @property
    def harmless(self) -> tuple[Difference, ...]:
        """Return what the kubelet did not cause."""
        return (*self.ended, *self.changed)


def divide(plan: RunPlan, now: Inventory, found: Iterable[Difference], evidence: Evidence) -> Departures:
    """Divide differences by whether the kubelet may have caused them."""
    judged = [
        (
            each,
            not evidence.changed.isdisjoint({each.container, each.pod.uid})
            or change_of_owner(plan, now, each, evidence.owners) is not None,
        )
        for each in found
    ]
    divided = _divided(
        (each for each, changed in judged if not changed),
        lambda difference: (
            difference.container in evidence.with_runtime
            or _fell_before(plan, now, difference, evidence)
            or _was_over(plan, difference, evidence.over)
            or _ended_by_itself(plan, now, difference, evidence)
            or _ended_with_its_pod(plan, now, difference, evidence)
        ),
    )
    return replace(divided, changed=tuple(each for each, changed in judged if changed))


def change_of_owner(
    plan: RunPlan, now: Inventory, difference: Difference, evidence: owner_changes.Evidence
) -> OwnerChange | None:
    """Return what the owner of the pod changed, if that explains what is different.

    A change that was taken back counts only if a kubelet has acted on it: then it started a container with the hash of
    another spec, and keeps that, the last that ended, beside the next. It is taken for one of the image.
    """
    known = None if difference.container is None else plan.baseline.container(difference.container)
    name = None if known is None else known.name
    if (change := owner_change(plan.owned, evidence, difference.pod.uid, name)) is not None:
        return change
    acted = was_taken_back(plan.owned, evidence, difference.pod.uid, name) and any(
        (c.pod.uid, c.name) == (difference.pod.uid, name)
        and plan.baseline.container(c.id) is None
        and c.hashes.container not in _planned_hashes(plan, c)
        for c in now.containers
    )
    return OwnerChange.IMAGE_CHANGED if acted else None


def _planned_hashes(plan: RunPlan, container: ContainerInstance) -> frozenset[HashValue | None]:
    same = (c for c in plan.containers if (c.pod.uid, c.name) == (container.pod.uid, container.name))
    return frozenset(hashes.container for c in same for hashes in (c.before, c.after))


def divide_without_kubelet(
    plan: RunPlan, now: Inventory, found: Iterable[Difference], asked: frozenset[str] | None, moment: datetime
) -> Departures:
    """Divide differences that the restart of the runtime may have brought about, while no kubelet runs.

    ``asked`` is what the runtime was requested to stop since its start; ``None`` if its log is not reliable. ``moment``
    is when ``now`` was listed.
    """
    return _divided(found, lambda each: _ended_without_kubelet(plan, now, each, asked or frozenset(), moment))


def _divided(found: Iterable[Difference], is_excused: Callable[[Difference], bool]) -> Departures:
    judged = [(difference, is_excused(difference)) for difference in found]
    return Departures(
        damage=tuple(difference for difference, excused in judged if not excused),
        ended=tuple(difference for difference, excused in judged if excused),
    )


def may_end_with_runtime(plan: RunPlan, difference: Difference) -> bool:
    """Report whether this is about a container that was connected to the runtime, and that a kubelet starts again."""
    return any(c.id == difference.container and c.may_end_with_runtime for c in plan.containers)


def is_expected_to_end(plan: RunPlan, now: Inventory, difference: Difference, moment: datetime) -> bool:
    """Report whether this is about a container that may end with the runtime, crashes, or may have completed.

    The latter is so where the runtime has lost how it ended, and it was not connected to the runtime.
    """
    ended = None if difference.container is None else now.container(difference.container)
    lost = ended is not None and ended.exit_code == LOST
    completed = any(c.id == difference.container and c.may_complete and not c.connected for c in plan.containers)
    expected = (lost and completed) or may_end_with_runtime(plan, difference)
    return expected or ends_again_and_again(now, difference, moment)


def may_be_harmless(plan: RunPlan, now: Inventory, damage: Iterable[Difference]) -> bool:
    """Report whether evidence is pending, with which all of the damage may turn out to be harmless.

    The runtime may still have to report how an instance ended whose process is gone; the API server, whether an owner
    changed something. The latter is not waited for where the kubelet is the likely cause: one that does not recognise a
    container creates another at once, and one that rejects pods rejects several.
    """
    told = [difference for difference in damage if difference.kind is not DifferenceKind.ENDING]
    pods = {difference.pod.uid for difference in told}
    if len(pods) > 1 or any(difference.kind is DifferenceKind.RESTARTED for difference in told):
        return False
    known = {container.id for container in plan.baseline.containers}
    return not any(c.pod.uid in pods and c.id not in known for c in now.containers)


def ends_again_and_again(now: Inventory, difference: Difference, moment: datetime) -> bool:
    """Report whether a container has ended soon after its start, as an earlier instance of it did: a crash loop.

    Where the runtime has lost how it ended, an earlier instance has to have ended by itself.
    """
    ended = None if difference.container is None else now.container(difference.container)
    if ended is None or not _began_lately(ended, moment):
        return False
    lost = ended.exit_code == LOST
    return any(_by_itself(c) if lost else c.exit_code == ended.exit_code for c in _ended_earlier(now, ended))


def may_be_in_crash_loop(baseline: Inventory, moment: datetime) -> bool:
    """Report whether a container runs of which an earlier instance has ended, and that has not run for long."""
    return any(_began_lately(c, moment) and any(_ended_earlier(baseline, c)) for c in baseline.running())


def _began_lately(container: ContainerInstance, moment: datetime) -> bool:
    return container.created_at >= (moment.timestamp() - LOOPS_WITHIN) * 1e9


def _ended_earlier(inventory: Inventory, container: ContainerInstance) -> Iterator[ContainerInstance]:
    for c in inventory.containers:
        same = (c.pod.uid, c.name) == (container.pod.uid, container.name)
        if same and c.state is ContainerState.EXITED and c.created_at < container.created_at:
            yield c


def _by_itself(container: ContainerInstance) -> bool:
    return container.exit_code is not None and container.exit_code not in KILLED | {TERMINATED}


def _ended_without_kubelet(
    plan: RunPlan, now: Inventory, difference: Difference, asked: frozenset[str], moment: datetime
) -> bool:
    """Report whether a container whose end is no wonder has ended without a request.

    A runtime being stopped may forget a container that ends meanwhile, and exit before the exit code is on disk; one
    that starts may discard what the monitor knows of a container without a process.
    If the monitor of the pod still runs, nothing else loses it; see docs/decisions/runtime-clients.md.
    """
    if difference.kind is not DifferenceKind.STOPPED or difference.container is None:
        return False
    ended = now.container(difference.container)
    if ended is None or {ended.id, ended.sandbox_id} & asked:
        return False
    sandbox = now.sandbox(ended.sandbox_id)
    expected = is_expected_to_end(plan, now, difference, moment)
    lost = ended.exit_code == LOST and _is_monitored(plan, ended, sandbox)
    return sandbox is not None and sandbox.ready and expected and (_by_itself(ended) or lost)


def _is_monitored(plan: RunPlan, container: ContainerInstance, sandbox: SandboxInstance | None) -> bool:
    """Report whether one monitor supervises the whole pod, and is the same as before."""
    before, planned = plan.baseline.sandbox(container.sandbox_id), plan.baseline.container(container.id)
    if sandbox is None or before is None or planned is None or before.monitor is None:
        return False
    return sandbox.monitor == before.monitor and planned.monitor in {None, before.monitor}


def _ended_by_itself(plan: RunPlan, now: Inventory, difference: Difference, evidence: Evidence) -> bool:
    if (
        difference.container is None
        or difference.kind not in {DifferenceKind.STOPPED, DifferenceKind.RESTARTED}
        or evidence.asked is None
    ):
        return False
    before = plan.baseline.container(difference.container)
    if before is None or before.id in evidence.asked:
        return False
    sandbox = now.sandbox(before.sandbox_id)
    remains = _remains(before, now)
    # No kubelet starts a container in a sandbox that was stopped, so what was asked of that came later.
    followed = any(
        (c.sandbox_id, c.name) == (before.sandbox_id, before.name) and c.created_at > before.created_at
        for c in now.containers
    )
    stopped = sandbox is None or not sandbox.ready or sandbox.id in evidence.asked
    return (
        (followed or not stopped)
        and bool(remains)
        and not any(c.id in evidence.asked or c.exit_code is None or c.exit_code in KILLED for c in remains)
    )


def _fell_before(plan: RunPlan, now: Inventory, difference: Difference, evidence: Evidence) -> bool:
    """Report whether a container was seen to have ended by itself, and none that followed it was stopped on request.

    Once its pod is over, a kubelet stops what followed, and the sandbox.
    """
    before = None if difference.container is None else plan.baseline.container(difference.container)
    if before is None or difference.kind not in _FOR_GOOD or evidence.asked is None or before.id not in evidence.fell:
        return False
    instances = {c.id for c in now.containers if (c.sandbox_id, c.name) == (before.sandbox_id, before.name)}
    return not (instances | {before.id}) & evidence.asked or _is_pod_over(plan, now, difference, evidence)


def _ended_with_its_pod(plan: RunPlan, now: Inventory, difference: Difference, evidence: Evidence) -> bool:
    return difference.kind in _ENDS and _is_pod_over(plan, now, difference, evidence)


def _is_pod_over(plan: RunPlan, now: Inventory, difference: Difference, evidence: Evidence) -> bool:
    pod = next((each for each in plan.completing if each.pod == difference.pod.uid), None)
    if pod is None or not is_over(pod, now.containers):
        return False
    final = [c for c in now.containers if c.pod.uid == pod.pod and (c.name in pod.regular or is_final(c, pod))]
    return all(c.id in evidence.with_runtime or _fell(c, evidence) for c in final)


def _was_over(plan: RunPlan, difference: Difference, over: frozenset[ContainerId]) -> bool:
    """Report whether a container that was over is gone by now, or the sandbox of such containers has ended.

    Once such a pod is deleted, a kubelet may remove its containers first, and up to a minute later its stopped sandbox.
    A pod may have been over when the run was planned, and its sandbox not stopped yet.
    """
    if difference.container is not None:
        return difference.kind is DifferenceKind.GONE and difference.container in over
    if difference.kind not in _ENDS:
        return False
    if ran := {c.id for c in plan.baseline.running() if c.pod == difference.pod}:
        return ran <= over
    return any(each.pod == difference.pod.uid and is_over(each, plan.baseline.containers) for each in plan.completing)


def _fell(container: ContainerInstance, evidence: Evidence) -> bool:
    """Report whether a container that has ended was neither stopped on request nor killed.

    Exit code 0 does not prove it, and without the runtime's log only the shield shows that there was no request.
    """
    if evidence.asked is None:
        return evidence.shielded and container.exit_code == 0
    return container.id not in evidence.asked and container.exit_code not in {None, *KILLED}


def _remains(before: ContainerInstance, now: Inventory) -> list[ContainerInstance]:
    """Return the ended instances of a container. A kubelet keeps only the last, so the first may be gone already."""
    return [
        c
        for c in now.containers
        if (c.sandbox_id, c.name, c.state) == (before.sandbox_id, before.name, ContainerState.EXITED)
        and c.created_at >= before.created_at
    ]
