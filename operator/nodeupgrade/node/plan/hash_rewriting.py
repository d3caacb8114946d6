"""Plan the rewriting of container hashes, and prove each of them first.

The proof: for every container whose hash the running kubelet compares, the hash computed here for that *current*
version must equal the stored one; or the hash for another version that the kubelet is said to accept as well
(``hash.alsoAccepted``). If none does, the hash for the next version could be just as wrong, so nothing may be written.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.owner_changes import seen_in
from nodeupgrade.cluster.pods import Pod, PodContainer, Role, for_watch, parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.restart_policies import NEVER, is_over_at_zero, restart_policy
from nodeupgrade.kubelethash import (
    HashValue,
    KubeletVersion,
    UnhashableContainer,
    hash_container,
    hash_manifest_container,
    hash_without_resources,
    known_kubelets,
    series_ranges,
)
from nodeupgrade.node.plan.mirror_pods import each_for_itself
from nodeupgrade.node.plan.plan import AwaitedContainer, Newcomers, PlannedContainer, RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, StoredHashes

LARGEST_SPEC = 64 * 1024
"""Size, as JSON, of the largest spec of a pod that came whose hashes are computed."""
LARGEST_SPECS = 1024 * 1024
"""Size of all of them together, the smallest first, for which it takes 0.4 s; the way back waits for 3 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """A container whose stored hash is none that the running kubelet is known to accept."""

    pod: PodUid
    finding: Finding
    written_by: str | None  # the minor version that computes this hash nevertheless; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """The hashes to write, or findings that forbid writing any."""

    containers: tuple[PlannedContainer, ...]
    findings: tuple[Finding, ...]
    awaited: tuple[AwaitedContainer, ...] = ()
    unproven: tuple[Unproven, ...] = ()  # the containers whose stored hash was not reproduced


@dataclass(frozen=True, slots=True)
class _Kubelets:
    """The running kubelet, the versions whose hashes it accepts besides its own, and the new kubelet."""

    current: KubeletVersion
    also: tuple[KubeletVersion, ...]
    target: KubeletVersion
    heeding: frozenset[bool]  # whether each of the two heeds the restart policies of single containers


def plan_rewriting(
    pods: Iterable[Pod],
    inventory: Inventory,
    *,
    current: KubeletVersion,
    target: KubeletVersion,
    also_accepted: Iterable[KubeletVersion] = (),
    to_target: Iterable[Pod] = (),
    stopped: bool = False,
    heeding: Iterable[bool] = (False,),
) -> Rewriting:
    """Plan the rewriting of every running container.

    Args:
        pods: as the running kubelet sees them.
        also_accepted: further versions whose hashes the running kubelet accepts; the first that fits counts.
        to_target: those that the new kubelet sees in another way, because it reads another configuration.
        stopped: whether no kubelet runs, so that the containers of pods that are being deleted run on until one does.
        heeding: whether the running and the new kubelet heed the restart policies of single containers.

    Raises:
        UnsupportedKubelet: one of the two versions is not supported.
    """
    known = {pod.ref: pod for pod in pods}
    deleting = frozenset(ref for ref, pod in known.items() if pod.terminating and not stopped)
    after = {**known, **{pod.ref: pod for pod in to_target}}
    kubelets = _Kubelets(current, tuple(also_accepted), target, frozenset(heeding))
    planned: list[PlannedContainer] = []
    findings: list[Finding] = []
    unproven: list[Unproven] = []
    left_over = inventory.left_over()
    for instance in inventory.containers:
        if instance.state is ContainerState.EXITED or instance.id in left_over:
            continue
        if instance.pod in deleting and instance.state is ContainerState.RUNNING:
            detail = "its pod is being deleted"
            findings.append(Finding(reason=Reason.POD_IN_TRANSITION, subject=instance.label, detail=detail))
            continue
        match _plan_one(instance, known, after, kubelets):
            case Unproven() as found:
                findings.append(found.finding)
                unproven.append(found)
            case Finding() as finding:
                findings.append(finding)
            case container:
                planned.append(container)
    running = {(c.pod, c.name) for c in planned}
    awaited = tuple(_awaited(_compared(known.values(), running, current, target, after)))
    return Rewriting(containers=tuple(planned), findings=tuple(findings), awaited=awaited, unproven=tuple(unproven))


def for_newcomers(plan: RunPlan) -> Callable[[Json], Json]:
    """Return what reduces a pod as served to what ``newcomers`` and ``seen_in`` need of it.

    Whoever may create or annotate pods decides how many come, and how large they are. Of a spec that is larger than any
    usual one nothing is kept, so that no hash is told, and those of other pods are in time.
    """
    known = plan.pods()

    def keep(pod: Json) -> Json:
        view, kept = parse_pod(pod), for_watch(pod)
        if view.ref.uid in known:
            return {**kept, "spec": view.spec} if seen_in(plan.owned, (view,)).specs else kept
        return {**kept, "spec": {} if len(json.dumps(view.spec)) > LARGEST_SPEC else view.spec}

    return keep


def newcomers(plan: RunPlan, pods: Iterable[Pod]) -> Newcomers:
    """Return the pods that were added or changed after planning, and the hashes that kubelets store with containers.

    Those with a hash that nobody knows are left out: the old kubelet may not recognise their containers. Pods without
    containers are those of which ``for_newcomers`` has kept none.

    Raises:
        UnsupportedKubelet: one of the two versions is not supported.
    """
    known = plan.pods()
    pods = each_for_itself(pods, (sandbox.pod for sandbox in plan.baseline.sandboxes))
    changed = {spec.pod for spec in seen_in(plan.owned, pods).specs}
    came = (pod for pod in pods if pod.containers and (pod.ref.uid not in known or pod.ref.uid in changed))
    new = [*_smallest(came)]
    current, target = KubeletVersion.parse(plan.from_version), KubeletVersion.parse(plan.to_version)
    compared = [*_compared(new, (), current, target)]
    unknown = {each.pod for each in compared if each.hashes is None}
    certain = tuple(pod.ref.uid for pod in new if pod.ref.uid not in unknown)
    return Newcomers(pods=certain, containers=tuple(_awaited(compared)))


def _smallest(pods: Iterable[Pod]) -> Iterator[Pod]:
    """Yield as many as LARGEST_SPECS allows."""
    left = LARGEST_SPECS
    for size, pod in sorted(((len(json.dumps(pod.spec)), pod) for pod in pods), key=lambda each: each[0]):
        left -= size
        if left < 0:
            return
        yield pod


@dataclass(frozen=True, slots=True)
class _Compared:
    """A container whose hash kubelets compare."""

    pod: PodUid
    name: str
    hashes: tuple[HashValue, HashValue] | None  # the current kubelet's and the target's; None if one is not certain


def _awaited(compared: Iterable[_Compared]) -> Iterator[AwaitedContainer]:
    for each in compared:
        if each.hashes is not None and each.hashes[0] != each.hashes[1]:
            before, after = each.hashes
            yield AwaitedContainer(pod=each.pod, name=each.name, before=before, after=after)


def _compared(
    pods: Iterable[Pod],
    running: Collection[tuple[PodRef, str]],
    current: KubeletVersion,
    target: KubeletVersion,
    to_target: Mapping[PodRef, Pod] = MappingProxyType({}),
) -> Iterator[_Compared]:
    for pod in pods:
        then = to_target.get(pod.ref, pod)
        for spec in pod.containers:
            if spec.role not in {Role.REGULAR, Role.SIDECAR} or (pod.ref, spec.name) in running:
                continue
            hashes: tuple[HashValue, HashValue] | None = None
            with suppress(UnhashableContainer):  # it does not run, so nothing depends on its hash
                hashes = hash_of(pod, spec, current), hash_of(then, then.container(spec.name) or spec, target)
            yield _Compared(pod.ref.uid, spec.name, hashes)


def _plan_one(
    instance: ContainerInstance, pods: Mapping[PodRef, Pod], to_target: Mapping[PodRef, Pod], kubelets: _Kubelets
) -> PlannedContainer | Unproven | Finding:
    if instance.state is not ContainerState.RUNNING:
        detail = f"container is {instance.state}: it is being started, stopped or lost; retry when it runs"
        return Finding(reason=Reason.POD_IN_TRANSITION, subject=instance.label, detail=detail)
    pod = pods.get(instance.pod)
    if pod is None:
        detail = "container runs for a pod that neither the API server nor a manifest knows"
        return Finding(reason=Reason.UNKNOWN_CONTAINER, subject=instance.label, detail=detail)
    if pod.finished:
        detail = "container runs although its pod has ended (it may be evicted): it is about to be stopped"
        return Finding(reason=Reason.POD_IN_TRANSITION, subject=instance.label, detail=detail)
    spec = pod.container(instance.name)
    if spec is None:
        detail = "container runs, but its pod's spec has none of this name"
        return Finding(reason=Reason.UNKNOWN_CONTAINER, subject=instance.label, detail=detail)
    try:
        return _prove(instance, pod, spec, to_target.get(instance.pod, pod), kubelets)
    except UnhashableContainer as error:
        finding = Finding(reason=Reason.STORED_HASH_NOT_REPRODUCED, subject=instance.label, detail=str(error))
        return Unproven(pod=pod.ref.uid, finding=finding, written_by=None)


def _prove(
    instance: ContainerInstance, pod: Pod, spec: PodContainer, then: Pod, kubelets: _Kubelets
) -> PlannedContainer | Unproven:
    current, target = kubelets.current, kubelets.target
    kept = spec.role in {Role.REGULAR, Role.SIDECAR}
    compared = is_compared(spec.role, current)
    stored = instance.hashes
    writer = None
    if kept:
        own = hash_of(pod, spec, current)
        # Kubelets that do not compare sidecars ignore the hash: an earlier kubelet's may be left from a plain swap.
        candidates = (current, *(kubelets.also if compared else known_kubelets(history.SIDECARS)))
        writer = next(_writers(pod, spec, stored, candidates), None)
        # What neither kubelet compares stays: one that does must still detect the change.
        if writer is None and (compared or is_compared(spec.role, target)):
            detail = _not_proven(stored, kubelets, own) if compared else _changed(stored, kubelets)
            return _unproven(instance, pod, spec, current, detail)
    policies = {restart_policy(spec.spec, pod.restart_policy, own=own) for own in kubelets.heeding}
    regular = spec.role is Role.REGULAR
    over = all(is_over_at_zero(spec.spec, pod.restart_policy, own=own) for own in kubelets.heeding)
    return PlannedContainer(
        id=instance.id,
        name=instance.name,
        pod=instance.pod,
        before=stored,
        after=stored if writer is None else _after(then, then.container(spec.name) or spec, stored, target),
        compared=compared,
        may_complete=spec.role in {Role.INIT, Role.EPHEMERAL} or (regular and over),
        restarts_itself=spec.role is Role.SIDECAR or (regular and not policies & {NEVER, None}),
        written_by=None if writer is None else writer.series,
        start_matters=_starts_slowly(spec.spec),
    )


def _starts_slowly(spec: Json) -> bool:
    return bool(spec.get("startupProbe") or (spec.get("lifecycle") or {}).get("postStart"))


def _not_proven(stored: StoredHashes, kubelets: _Kubelets, own: HashValue) -> str:
    also = " or ".join(kubelet.series for kubelet in kubelets.also)
    return (
        f"stored hash {stored.container or 'missing'} is not what kubelet {kubelets.current} computes for its "
        f"spec ({own}){f', nor what {also} computes (hash.alsoAccepted)' if also else ''}, so the hash for "
        f"{kubelets.target} cannot be trusted either"
    )


def _changed(stored: StoredHashes, kubelets: _Kubelets) -> str:
    return (
        f"stored hash {stored.container or 'missing'} is not what any kubelet computes for its spec: it was "
        f"changed since the sidecar began, which kubelet {kubelets.current} does not notice and "
        f"{kubelets.target} would"
    )


def _writers(
    pod: Pod, spec: PodContainer, stored: StoredHashes, candidates: Iterable[KubeletVersion]
) -> Iterator[KubeletVersion]:
    """Yield those of several kubelets that compute the stored hash for the present spec."""
    for kubelet in candidates:
        with suppress(UnhashableContainer):  # then this one did not write it
            if hash_of(pod, spec, kubelet) == stored.container:
                yield kubelet


def _unproven(
    instance: ContainerInstance, pod: Pod, spec: PodContainer, current: KubeletVersion, detail: str
) -> Unproven:
    writers = tuple(_writers(pod, spec, instance.hashes, known_kubelets()))
    if writers:
        detail = (
            f"{detail}; it is what kubelet {series_ranges(writers)} computes: if the node's kubelet was built to "
            "accept the hashes of one of them, list that one in hash.alsoAccepted"
        )
    finding = Finding(reason=Reason.STORED_HASH_NOT_REPRODUCED, subject=instance.label, detail=detail)
    nearest = min(writers, key=lambda each: abs(each.minor - current.minor), default=None)
    return Unproven(pod=pod.ref.uid, finding=finding, written_by=None if nearest is None else nearest.series)


def is_compared(role: Role, kubelet: KubeletVersion) -> bool:
    """Report whether a kubelet compares the hash of a running container with this role.

    Only newer kubelets compare sidecars'; none compares plain init or ephemeral containers'.
    """
    return role is Role.REGULAR or (role is Role.SIDECAR and history.SIDECARS_COMPARED.applies_to(kubelet))


def _after(pod: Pod, spec: PodContainer, stored: StoredHashes, target: KubeletVersion) -> StoredHashes:
    without = stored.without_resources
    if without is not None and history.RESOURCELESS_HASH.applies_to(target):
        without = hash_without_resources(spec.spec, target)
    return StoredHashes(container=hash_of(pod, spec, target), without_resources=without)


def hash_of(pod: Pod, spec: PodContainer, kubelet: KubeletVersion) -> HashValue:
    """Return the hash that a kubelet computes for a container of a pod.

    Raises:
        UnhashableContainer: its spec contains something whose hash is not certain.
    """
    return (hash_manifest_container if pod.from_manifest else hash_container)(spec.spec, kubelet)
