"""Find out what changed since planning, with the agent's help for what came."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.owner_changes import Evidence, owner_change, owner_changes
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.known_defects import DEVICES_ALLOCATED_ANEW
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.kubelethash.changes import NAME_AND_IMAGE_HASHED
from nodeupgrade.node.journal.plan_in_effect import AMENDMENT
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.amendment import (
    AMENDMENT_SCHEMA,
    Amendment,
    Arrivals,
    PlannedArrivals,
    amended,
    amendment_of,
    changes_since,
    restarted,
    unfit,
)
from nodeupgrade.node.plan.manifest_uid import NotEditableError, pin
from nodeupgrade.node.plan.plan import PlannedContainer, RunPlan, StaticPodPin
from nodeupgrade.node.run.container_watch import owner_evidence
from nodeupgrade.node.run.shown_containers import require_shown
from nodeupgrade.node.runtimes.inventory import ContainerInstance, Inventory
from nodeupgrade.node.verification.hidden_containers import find_hidden

ANSWER_SECONDS = 3.0
"""How long to wait for the agent, which answers within a second, and for what is being started or is ending."""
PENDING_SECONDS = 0.5
"""How long to wait for what is being started or is ending when no kubelet runs: its call may have been under way.

Likewise for the agent to report that an owner has deleted a pod.
"""
LOOK_SECONDS = 0.05
LARGEST_ARRIVALS = 8 * 1024**2
"""Bytes that the runtime stores about all that came, usually 10 to 50 KB for each: to journal more would take a second
and more memory than a kubelet that is down can wait for. Whoever creates a pod decides how large its environment is.
"""


def record_of(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the amendment of the plan for the journal, with no kubelet running; empty if nothing changed.

    Raises:
        StepFailed: what came could not be proved, or nobody answered; or the runtime does not show what still runs.
    """
    began = node.clock.awake()
    while _is_pending(node, plan, now := node.runtime.inventory()):
        if node.clock.awake() >= began + PENDING_SECONDS:
            break
        node.clock.sleep(LOOK_SECONDS)
    with _naming_what_ended(plan, now):
        _require_devices_used(node, plan, now)
        came, answer = _planned(node, plan, now)
        if came:
            now = node.runtime.inventory(of={c.pod.uid for c in came})
            _require_sound(now, came)
        require_shown(node, _not_begun_again(plan, now), now)
        found = amendment_of(plan, now, came, answer)
        if node.runtime.kind.one_monitor_per_pod and amended(plan, found).rewrites():
            _require_one_monitor(now, found)
    return {} if found == Amendment() else {AMENDMENT: to_json(found, strict=True)}


def _is_pending(node: Node, plan: RunPlan, now: Inventory) -> bool:
    return changes_since(plan, now).pending or bool(find_hidden(_not_begun_again(plan, now), now, node.runtime.alive))


def _not_begun_again(plan: RunPlan, now: Inventory) -> RunPlan:
    """Return the plan without pods that the old kubelet has begun again: what was lost of them is lost."""
    pods = frozenset(c.pod.uid for c in changes_since(plan, now).came)
    return replace(plan, baseline=plan.baseline.without(pods))


def resized(plan: RunPlan, evidence: Evidence) -> Iterator[PlannedContainer]:
    """Yield the containers to be rewritten that were resized in place since: no planned hash is that of their size."""
    changed = _resizes(plan, evidence)
    return (c for c in plan.rewrites() if (c.pod.uid, c.name) in changed)


def _resizes(plan: RunPlan, evidence: Evidence) -> dict[tuple[PodUid, str | None], None]:
    found = owner_changes(plan.owned, evidence)
    return {(pod, name): None for pod, name, change in found if change is OwnerChange.RESIZED}


def require_plannable(node: Node, plan: RunPlan) -> None:
    """Look at what runs while the kubelet does, and have planned what came; raises as record_of().

    It is given a moment to bring a container with devices back, or to end its pod, which no kubelet that starts does.
    """
    end = node.clock.awake() + ANSWER_SECONDS
    while any(_unused_devices(plan, now := node.runtime.inventory())) and node.clock.awake() < end:
        node.clock.sleep(LOOK_SECONDS)
    with _naming_what_ended(plan, now):
        for container in _unused_devices(plan, now):
            raise _devices_lost(container)
        _planned(node, plan, now)


@contextmanager
def _naming_what_ended(plan: RunPlan, now: Inventory) -> Iterator[None]:
    """Have a failure name what had ended by itself before: that is no damage of a run that turns back."""
    try:
        yield
    except StepFailed as error:
        error.changed = error.changed or tuple(c.label for c in changes_since(plan, now).ended)
        raise


def _planned(node: Node, plan: RunPlan, now: Inventory) -> tuple[tuple[PlannedContainer, ...], PlannedArrivals | None]:
    """Return the plans of what came; require the hashes of what was planned to be still those of its spec."""
    _require_sizes(plan, node.owner_changes())
    changes = changes_since(plan, now)
    _require_small(node, changes.came)
    again = {c.id: known for c in changes.came if (known := restarted(plan, c)) is not None}
    unknown = tuple(c for c in changes.came if c.id not in again)
    if not unknown:
        return tuple(again.values()), None
    deadline, asked = node.clock.awake() + ANSWER_SECONDS, _asking(plan, now, unknown)
    while (answer := node.planned_arrivals(asked)) is None or set(answer.asked) != {c.id for c in unknown}:
        if node.clock.awake() >= deadline:
            raise _changed(f"{unknown[0].label} came since the run was planned, and the agent has not planned it")
        node.clock.sleep(LOOK_SECONDS)
    if (why := unfit(answer, asked)) is not None:
        raise _changed(f"what came since the run was planned cannot be taken in: {why}")
    for planned in answer.pins:
        _require_pin(node, planned)
    return (*again.values(), *answer.containers), answer


def _require_sizes(plan: RunPlan, evidence: Evidence) -> None:
    """Require that nothing was resized by which a hash is another one, or by which a kubelet may reject a pod.

    Before 1.33, and without its record of what it allocated, a kubelet that starts admits all pods by their specs, the
    oldest first. A resize that the running one has not carried out leaves no room for those that are younger.
    """
    if not NAME_AND_IMAGE_HASHED.covers(KubeletVersion.parse(plan.to_version).minor):
        for container in resized(plan, evidence):
            raise _changed(f"{container.label} was resized since the run was planned, and its hash depends on its size")
    for pod, name in _resizes(plan, evidence) if plan.owned.resizes_reject else ():
        known = {c.pod.uid: f"{c.pod}/{name}" for c in plan.containers}
        raise _changed(
            f"{known.get(pod, name)} was resized since the run was planned, and a kubelet that starts may reject pods "
            "for its new size"
        )


def _require_devices_used(node: Node, plan: RunPlan, now: Inventory) -> None:
    """Require no container with devices to have ended in a pod that is watched on; see devices_are_kept().

    Except in one that its owner deletes: it is over anyway, and to go back would start a kubelet as well. The agent
    reports a deletion unasked, within a moment.
    """
    unused, end = tuple(_unused_devices(plan, now)), node.clock.awake() + PENDING_SECONDS
    while left := [c for c in unused if owner_change(plan.owned, owner_evidence(node, plan), c.pod.uid) is None]:
        if node.clock.awake() >= end:
            raise _devices_lost(left[0])
        node.clock.sleep(LOOK_SECONDS)


def _unused_devices(plan: RunPlan, now: Inventory) -> Iterator[PlannedContainer]:
    """Yield the containers with devices that ended in a pod that goes on, where a kubelet that starts minds that."""
    if not any(map(DEVICES_ALLOCATED_ANEW.affects, map(KubeletVersion.parse, (plan.from_version, plan.to_version)))):
        return
    running = {(c.pod.uid, c.name) for c in now.running()}
    pods, ran = {uid for uid, _ in running}, {c.id for c in plan.baseline.running()}
    ready = {s.pod.uid for s in now.sandboxes if s.ready}
    retried = {(pod.pod, name) for pod in plan.completing for name in pod.retried}  # unless they exit with code 0
    for c in changes_since(plan, now).ended:
        over = c.may_complete and (c.pod.uid, c.name) not in retried
        stays = c.pod.uid in pods or (c.pod.uid in ready and not over)
        if c.has_devices and c.id in ran and stays and (c.pod.uid, c.name) not in running:
            yield c


def _require_small(node: Node, came: Iterable[ContainerInstance]) -> None:
    """Require what the runtime stores about all that came to fit into the journal, without reading more than that."""
    left = LARGEST_ARRIVALS
    for container in came:
        left -= sum(len(image.data) for image in node.runtime.before_images([container.id]).values())
        if left < 0:
            raise _changed(
                f"{container.label} came since the run was planned, and the runtime stores more about what came than "
                f"{LARGEST_ARRIVALS >> 20} MiB, such as its environment"
            )


def _require_pin(node: Node, planned: StaticPodPin) -> None:
    """Require that a manifest is to get the UID and nothing else: the agent's answer is believed about no file."""
    found = node.files.read(PurePosixPath(planned.path))
    try:
        is_sound = found is not None and pin(found, planned.uid) == planned.content
    except NotEditableError:
        is_sound = False
    if not is_sound:
        raise _changed(f"{planned.path} was changed since a static pod came of it, or is no manifest of it")


def _require_sound(now: Inventory, came: tuple[PlannedContainer, ...]) -> None:
    """Require a process, and a sandbox as a kubelet keeps it, for all that came and still runs.

    A runtime that restarts kills a container whose monitor does not answer it, and the shield protects only processes.
    """
    sound = {s.id for s in now.sandboxes if s.ready and (s.host_network or s.ip != "")}
    ids = {c.id for c in came}
    running = [c for c in now.running() if c.id in ids]
    if broken := [c.label for c in running if c.sandbox_id not in sound]:
        raise _changed(f"{broken[0]} came since the run was planned, and its sandbox is not ready")
    if unknown := [c.label for c in running if c.process is None]:
        raise _changed(f"{unknown[0]} came since the run was planned, and its process is not known")


def _require_one_monitor(now: Inventory, found: Amendment) -> None:
    """Require all that came to run under the monitor of its pod, since the runtime is to be restarted.

    On a busy node, a runtime may start another one for a container. A restart then kills the pod as a whole.
    """
    came = {c.id for c in found.came}
    if split := [container.label for container, _ in now.under_other_monitors() if container.id in came]:
        raise _changed(
            f"{split[0]} came since the run was planned and runs under another monitor than its pod, so a restart of "
            "the runtime would kill the pod"
        )


def _asking(plan: RunPlan, now: Inventory, unknown: tuple[ContainerInstance, ...]) -> Arrivals:
    pods, ids = {c.pod.uid for c in unknown}, {c.id for c in unknown}
    return Arrivals(
        schema=AMENDMENT_SCHEMA,
        run_id=plan.run_id,
        inventory=Inventory(containers=unknown, sandboxes=tuple(s for s in now.sandboxes if s.pod.uid in pods)),
        others=tuple(c for c in now.containers if c.pod.uid in pods and c.id not in ids),
    )


def _devices_lost(container: PlannedContainer) -> StepFailed:
    return _changed(
        f"{container.label}, which has devices, ended since the run was planned, and a starting kubelet would reject "
        f"its pod ({DEVICES_ALLOCATED_ANEW.reference})"
    )


def _changed(why: str) -> StepFailed:
    return StepFailed(why, reason=Reason.INVENTORY_CHANGED)
