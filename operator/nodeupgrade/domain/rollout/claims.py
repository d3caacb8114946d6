"""Claims: the writes by which a rollout claims and releases its nodes.

They concern only tasks of nodes without a slot, at most ``WRITES_AT_ONCE`` per pass.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import RunKind, TaskAction, TaskSpec, UpgradeRef, new_run_id
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pods import ContainerStatus, Pod
from nodeupgrade.domain.rollout.actions import Blank, Claim, DropTask, NodeAction, NoteHold, Release
from nodeupgrade.domain.rollout.membership import is_claimable, resolve_artifact
from nodeupgrade.domain.rollout.node_state import Place
from nodeupgrade.domain.rollout.retry import past_runs, reopened
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WRITES_AT_ONCE = 250


def prepare(rollout: RolloutView, now: datetime, *, stalled: bool) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    Args:
        rollout: The current view of the rollout.
        now: Wall-clock time, UTC.
        stalled: Whether a person is needed before the rollout continues; if so, nothing is retried automatically.
    """
    if rollout.upgrade.deleting or rollout.spec.action is RolloutAction.ABORT:
        return ()
    goes_on = not rollout.upgrade.finished or rollout.upgrade.retry_asked
    due: list[NodeAction] = [*reopened(rollout, now, by_itself=may_claim(rollout) and not stalled)]
    if rollout.upgrade.status.accepted_spec_digest and may_claim(rollout) and goes_on:
        due += _claimed(rollout, now)
    due += _held(rollout)
    return tuple(due[:WRITES_AT_ONCE])


def _held(rollout: RolloutView) -> Iterable[NoteHold]:
    """Return the notes on nodes that are found held by a pod for the first time."""
    for member in rollout.members.values():
        if member.reason is Reason.HELD_BY_POD and member.task is not None and member.task.held_since is None:
            yield NoteHold(node=member.node, task=member.task, reason=member.reason, message=member.message)


def may_claim(rollout: RolloutView) -> bool:
    """Report whether nodes may be claimed now: not while the rollout is paused or aborted."""
    return rollout.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not rollout.upgrade.braked


def release_all(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Return the releases of tasks that are claimed but whose run never began."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    message = "the claim is given back"
    return tuple(
        Release(node=task.name, task=task, reason=Reason.CLAIMED, message=f"node {task.name}: {message}")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def clear_stale(rollout: RolloutView) -> tuple[Blank, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run."""
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


def task_spec(
    fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, *, wave: str, order: int, now: datetime
) -> TaskSpec:
    """Return the spec of a waiting task, resolved for this node.

    Raises:
        KeyError: There is no artifact for the node's platform.
    """
    upgrade, held = fleet.upgrade, fleet.tasks.get(node.name)
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=new_run_id(upgrade.uid, now),
        from_version=node.kubelet_version,
        to_version=spec.version,
        artifact=resolve_artifact(spec.artifact, node.platform),
        files=spec.files,
        wave=wave,
        order=order,
        allow_downgrade=spec.allow_downgrade,
        hash_mode=spec.hash.mode,
        hash_also_accepted=spec.hash.also_accepted,
        kubelet=spec.kubelet,
        preflight=spec.preflight,
        verify=spec.verify,
        history=() if held is None else past_runs(held),
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
        if (
            held is not None
            and held.spec.upgrade_ref.uid != rollout.upgrade.uid
            and not is_claimable(held, rollout.fleet.active_upgrades)
        ):
            continue
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        spec = task_spec(rollout.fleet, rollout.spec, node, wave=member.wave, order=order[node.name], now=now)
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


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


def capture(pods: Iterable[Pod]) -> Baseline:
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
        baseline: The state before the run.
        pods: The node's pods as they are now.
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
    unready = (pod for pod in pods if not (pod.ready or pod.terminating or pod.finished))
    return tuple(sorted(str(pod) for pod in unready if baseline.ready.get(str(pod)) == _uid(pod)))


def render(baseline: Baseline) -> str:
    """Encode a baseline as compressed text for an annotation."""
    content = {"containers": baseline.containers, "ready": baseline.ready}
    document = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(document.encode(), 9)).decode()


def parse(text: str) -> Baseline | None:
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
