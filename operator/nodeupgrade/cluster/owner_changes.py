"""Decide whether what happens to a pod during a run is what its owner asked for.

The shield, the verification on the node and the control plane's verdict all ask here. Evidence is only what a kubelet
cannot write: a container's spec, a deletion in the API, and the manifest of a static pod. Statuses and mirror pods
prove nothing. A change of one container excuses nothing that happens to another, nor to the sandbox.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import Digest, PodUid
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.errors import StepFailed

BY_TAINT = "DeletionByTaintManager"
"""Reason of an eviction from a node that was unreachable for too long, perhaps since its kubelet did not come back."""
_DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What owners may change of a container in place, as the API server shows it; long values as digests."""

    pod: PodUid
    name: str
    image: str
    resources: str
    ephemeral: bool = False
    restarts: bool = False  # whether it has a resizePolicy with which a kubelet restarts it for its new resources


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticSource:
    """The manifest of a static pod."""

    pod: PodUid
    path: str
    digests: tuple[Digest, ...]  # of the manifest as found, as the run writes it, and of what both describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What owners wanted when the run was planned."""

    containers: tuple[ContainerSpec, ...] = ()
    manifests: tuple[StaticSource, ...] = ()
    # pods whose deletion proves nothing: it may be an eviction by a taint that nothing marks (API server before 1.26)
    may_be_evicted: tuple[PodUid, ...] = ()
    # whether one of the kubelets restarts a container for any change of its resources, as those up to 1.30 do
    resizes_restart: bool = True
    # whether one of them admits a pod that was resized by its new size, so that it may reject it, or others
    resizes_reject: bool = True

    def and_later(self, later: "Planned") -> "Planned":
        """Return this with what was planned later."""
        manifests = {source.pod: source for source in (*self.manifests, *later.manifests)}
        return replace(
            self,
            containers=tuple(_newest((*self.containers, *later.containers))),
            manifests=tuple(manifests.values()),
            may_be_evicted=(*self.may_be_evicted, *later.may_be_evicted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of a static pod as it is now."""

    path: str
    digests: tuple[Digest, ...]  # of it, and of what it describes; none if there is no manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows what owners want now."""

    deleted: tuple[PodUid, ...] = ()  # pods that were deleted in the API
    # the newest of containers that were planned otherwise, or not at all; or are as planned again
    specs: tuple[ContainerSpec, ...] = ()
    manifests: tuple[Manifest, ...] = ()

    def and_before(self, before: "Evidence") -> "Evidence":
        """Return this with earlier evidence, which stays true; of each container, the newest spec counts."""
        return replace(
            self,
            deleted=tuple(sorted({*before.deleted, *self.deleted})),
            specs=tuple(_newest((*before.specs, *self.specs))),
        )

    def with_manifests(self, planned: Planned, digests: Callable[[str], tuple[Digest, ...]]) -> "Evidence":
        """Return this with the manifests as they are now; ``digests`` returns those of a file on the node.

        One that cannot be read, such as a directory in its place, proves nothing, and keeps no run from ending.
        """
        manifests = list[Manifest]()
        for source in planned.manifests:
            with suppress(StepFailed):
                manifests.append(Manifest(path=source.path, digests=digests(source.path)))
        return replace(self, manifests=tuple(manifests))


def owner_change(
    planned: Planned, evidence: Evidence, pod: PodUid, container: str | None = None, *, ends: bool = True
) -> OwnerChange | None:
    """Return the owner's change that explains what happens to a container; ``None`` if there is none.

    Args:
        planned: what was planned.
        evidence: what is known now.
        pod: as the runtime knows it.
        container: ``None`` for the pod's sandbox.
        ends: whether it ends, which a resize explains only by the kubelet's version or the container's resizePolicy.
    """
    restarts = {(spec.pod, spec.name) for spec in evidence.specs if spec.restarts}
    found = (
        change
        for whose, name, change in owner_changes(planned, evidence)
        if whose == pod and name in {None, container} and change is not OwnerChange.EPHEMERAL_CONTAINER_ADDED
        if change is not OwnerChange.RESIZED or planned.resizes_restart or not ends or (whose, name) in restarts
    )
    return next(found, None)


def was_taken_back(planned: Planned, evidence: Evidence, pod: PodUid, container: str | None) -> bool:
    """Report whether an owner changed a container, and has taken that back since. By itself, that excuses nothing."""
    return any((spec.pod, spec.name) == (pod, container) and spec in planned.containers for spec in evidence.specs)


def owner_changes(planned: Planned, evidence: Evidence) -> Iterator[tuple[PodUid, str | None, OwnerChange]]:
    """Yield every change, with its pod, and its container if it is a change of only one."""
    yield from ((pod, None, OwnerChange.POD_DELETED) for pod in evidence.deleted)
    now = {manifest.path: manifest.digests for manifest in evidence.manifests}
    for source in planned.manifests:
        if source.path in now and {*source.digests}.isdisjoint(digests := now[source.path]):
            change = OwnerChange.MANIFEST_CHANGED if digests else OwnerChange.MANIFEST_REMOVED
            yield source.pod, None, change
    before = {(spec.pod, spec.name): spec for spec in planned.containers}
    pods = {spec.pod for spec in planned.containers}
    for spec in evidence.specs:
        was = before.get((spec.pod, spec.name))
        if was is not None and was.image != spec.image:
            yield spec.pod, spec.name, OwnerChange.IMAGE_CHANGED
        elif was is not None and was.resources != spec.resources:
            yield spec.pod, spec.name, OwnerChange.RESIZED
        elif was is None and spec.ephemeral and spec.pod in pods:
            yield spec.pod, spec.name, OwnerChange.EPHEMERAL_CONTAINER_ADDED


def specs_of(pods: Iterable[Pod]) -> tuple[ContainerSpec, ...]:
    """Return the specs of all containers; not of static pods, whose mirror pods are written by the kubelet."""
    return tuple(
        ContainerSpec(
            pod=pod.ref.uid,
            name=container.name,
            image=_digest(container.spec.get("image") or ""),
            resources=_digest(container.spec.get("resources") or {}),
            ephemeral=container.role is Role.EPHEMERAL,
            restarts="RestartContainer" in json.dumps(container.spec.get("resizePolicy")),
        )
        for pod in pods
        if not pod.static
        for container in pod.containers
    )


def seen_in(
    planned: Planned, pods: Iterable[Pod], removed: frozenset[PodUid] = frozenset(), before: Evidence = Evidence()
) -> Evidence:
    """Return what pods of the API show that is otherwise than planned, or was.

    Args:
        planned: what was planned.
        pods: as they are now.
        removed: pods that are gone.
        before: what was seen earlier.
    """
    pods, known = tuple(pods), frozenset(planned.containers)
    uids, otherwise = {spec.pod for spec in known}, {(spec.pod, spec.name) for spec in before.specs}
    deleted = removed | {pod.ref.uid for pod in pods if not pod.static and was_deleted(pod)}
    return Evidence(
        deleted=tuple(sorted(deleted & uids - {*planned.may_be_evicted})),
        specs=tuple(
            spec
            for spec in specs_of(pods)
            if spec.pod in uids and (spec not in known or (spec.pod, spec.name) in otherwise)
        ),
    )


def was_deleted(pod: Pod) -> bool:
    """Report whether a pod was deleted in the API, and not because a kubelet failed it or its node was unreachable."""
    return pod.terminating and _before_its_end(pod) and _as_wished(pod)


def was_removed(last: Pod) -> bool:
    """Report the same for a pod that is gone from the API, by its last state there.

    That state may lack a deletionTimestamp if there was no grace period. A mirror pod only reflects its static pod.
    """
    return not last.mirror and _before_its_end(last) and _as_wished(last)


def _before_its_end(pod: Pod) -> bool:
    """Report whether a pod that is being deleted, or is gone, was deleted before it was reported as finished.

    A kubelet may report a pod as finished whose containers still run. Its deletion gets no grace period then; but a
    finalizer, such as that of a Job, keeps it in the API. Once a kubelet has ended a pod for its deletion, that looks
    the same: who has seen the deletion before has to remember it.
    """
    return not pod.finished or (pod.terminating and pod.raw["metadata"].get("deletionGracePeriodSeconds") != 0)


def _as_wished(pod: Pod) -> bool:
    conditions = pod.status.get("conditions") or ()
    return not pod.status.get("reason") and not any(
        c.get("type") == "DisruptionTarget" and c.get("reason") == BY_TAINT for c in conditions
    )


def _newest(specs: Iterable[ContainerSpec]) -> Iterable[ContainerSpec]:
    return {(spec.pod, spec.name): spec for spec in specs}.values()


def _digest(value: str | Json) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]
