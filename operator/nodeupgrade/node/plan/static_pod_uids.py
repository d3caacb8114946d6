"""Static pods: match them with their manifests, and plan which of these name the UID of the running pod.

A static pod's UID is a hash of its decoded manifest and changes with almost every minor. A UID in the manifest itself
does not change; so the present one is written into the manifest, and nothing else. It is taken out again as soon as a
kubelet computes the same UID by itself: see docs/decisions/static-pods.md.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest, FullName, PodRef
from nodeupgrade.cluster.pods import Pod, Role, parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelethash import UnhashableContainer, default_static_container
from nodeupgrade.node.plan.derived_uids import OwnUid
from nodeupgrade.node.plan.manifest_uid import NotEditableError, load, pin, unpin
from nodeupgrade.node.plan.plan import StaticPodPin
from nodeupgrade.node.runtimes.inventory import Inventory, SandboxInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPod:
    """A manifest and the sandbox that runs it."""

    path: str
    data: bytes
    manifest: Json
    sandbox: SandboxInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPods:
    """The running static pods of a node, and findings about those that cannot be handled."""

    pods: tuple[StaticPod, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The planned changes of UIDs in manifests."""

    pins: tuple[StaticPodPin, ...] = ()  # the manifests to change
    kept: tuple[str, ...] = ()  # paths of manifests that keep the UID which an earlier run wrote
    findings: tuple[Finding, ...] = ()
    recreated: tuple[PodRef, ...] = ()  # pods that the new kubelet replaces, since nothing keeps their UID


def match(manifests: Mapping[str, bytes], inventory: Inventory, node_name: str) -> StaticPods:
    """Find the manifest of every running static pod, to whose name kubelets append the node's."""
    parsed = {path: document for path, data in manifests.items() if (document := _parse(data)) is not None}
    pods: dict[str, StaticPod] = {}
    findings: list[Finding] = []
    for sandbox in inventory.sandboxes:
        if not (sandbox.ready and sandbox.is_static):
            continue
        paths = [path for path, document in parsed.items() if _full_name(document, node_name) == sandbox.pod.full_name]
        if len(paths) != 1:
            findings.append(_without_source(sandbox, paths, unread=manifests.keys() - parsed.keys()))
        elif (other := pods.get(paths[0])) is not None:
            detail = f"it runs under two UIDs at once, {other.sandbox.pod.uid} and {sandbox.pod.uid}"
            findings.append(Finding(reason=Reason.POD_IN_TRANSITION, subject=str(sandbox.pod), detail=detail))
        else:
            path = paths[0]
            pods[path] = StaticPod(path=path, data=manifests[path], manifest=parsed[path], sandbox=sandbox)
    return StaticPods(pods=tuple(pods.values()), findings=tuple(findings))


def full_names(manifests: Iterable[bytes], node_name: str) -> frozenset[FullName]:
    """Return the names of the pods that kubelets make of manifests."""
    documents = (document for data in manifests if (document := _parse(data)) is not None)
    return frozenset(_full_name(document, node_name) for document in documents)


def _without_source(sandbox: SandboxInstance, paths: list[str], *, unread: Collection[str]) -> Finding:
    found = "no manifest" if not paths else f"{len(paths)} manifests ({', '.join(paths)})"
    hint = f"; not readable as one pod: {', '.join(sorted(unread))}" if unread and not paths else ""
    detail = f"{found} in the kubelet's manifest directory can be its source{hint}"
    return Finding(reason=Reason.STATIC_POD_NOT_EDITABLE, subject=str(sandbox.pod), detail=detail)


def plan_pins(
    static: StaticPods, is_needless: Callable[[StaticPod, bytes], bool] = lambda _pod, _without: False
) -> Pins:
    """Plan the changes of the manifests so that every pod keeps its UID.

    ``is_needless`` reports whether the new kubelet computes the same UID by itself, given a pod and its manifest
    without the UID that an earlier run wrote into it.
    """
    pins: list[StaticPodPin] = []
    kept: list[str] = []
    findings: list[Finding] = []
    for pod in static.pods:
        try:
            content = pin(pod.data, pod.sandbox.pod.uid)
        except NotEditableError as error:
            detail = f"{pod.path} cannot be edited safely: {error}"
            findings.append(Finding(reason=Reason.STATIC_POD_NOT_EDITABLE, subject=str(pod.sandbox.pod), detail=detail))
            continue
        if content != pod.data:
            pins.append(_changed(pod, content))
        elif (without := unpin(pod.data)) is None:
            continue
        elif is_needless(pod, without):
            pins.append(_changed(pod, without, removes=True))
        else:
            kept.append(pod.path)
    return Pins(pins=tuple(pins), kept=tuple(kept), findings=tuple(findings))


def plan_recreation(static: StaticPods, *, moves: bool) -> Pins:
    """Plan to remove all UIDs that runs wrote; ``moves`` if the new kubelet computes other UIDs than the old one."""
    taken_out = {pod.path: without for pod in static.pods if (without := unpin(pod.data)) is not None}
    return Pins(
        pins=tuple(_changed(pod, taken_out[pod.path], removes=True) for pod in static.pods if pod.path in taken_out),
        recreated=tuple(
            pod.sandbox.pod
            for pod in static.pods
            if pod.path in taken_out or (moves and not pod.manifest["metadata"].get("uid"))
        ),
    )


def _changed(pod: StaticPod, content: bytes, *, removes: bool = False) -> StaticPodPin:
    before = Digest(sha256(pod.data).hexdigest())
    return StaticPodPin(path=pod.path, uid=pod.sandbox.pod.uid, before=before, content=content, removes=removes)


def edited_since(static: StaticPods, known: Callable[[StaticPod], OwnUid | None]) -> tuple[StaticPod, ...]:
    """Return the pods whose manifest was changed after a run had written the UID into it, and still names it.

    ``known`` returns the state of the manifest when that run found it; ``None`` if it is unknown.
    """
    return tuple(
        pod
        for pod in static.pods
        if (own := known(pod)) is not None
        and pod.manifest["metadata"].get("uid") == own.uid
        and sha256(pod.data if (without := unpin(pod.data)) is None else without).hexdigest() != own.manifest
    )


def manifest_views(static: StaticPods, *, in_place_resize: bool = False) -> tuple[tuple[Pod, ...], tuple[Finding, ...]]:
    """Return static pods as the kubelet reads them from their manifests, and findings about those that cannot be read.

    A mirror pod may differ: it lacks fields that the kubelet which created it did not know, and admission may have
    changed it. The kubelet's gate InPlacePodVerticalScaling (``in_place_resize``) adds a default.
    """
    views: list[Pod] = []
    findings: list[Finding] = []
    for pod in static.pods:
        try:
            views.append(_manifest_view(pod, in_place_resize=in_place_resize))
        except UnhashableContainer as error:
            findings.append(
                Finding(
                    reason=Reason.STORED_HASH_NOT_REPRODUCED,
                    subject=str(pod.sandbox.pod),
                    detail=f"{pod.path}: {error}",
                )
            )
    return tuple(views), tuple(findings)


def _manifest_view(pod: StaticPod, *, in_place_resize: bool) -> Pod:
    ref, spec = pod.sandbox.pod, pod.manifest["spec"]
    host_network = bool(spec.get("hostNetwork"))
    known = {**pod.manifest["metadata"], "namespace": ref.namespace, "name": ref.name, "uid": ref.uid}
    shown = parse_pod({"metadata": known, "spec": spec})
    return replace(
        shown,
        ref=ref,
        containers=tuple(
            replace(
                c,
                spec=default_static_container(
                    c.spec, host_network=host_network, in_place_resize=in_place_resize and c.role is Role.REGULAR
                ),
            )
            for c in shown.containers
        ),
        terminating=False,
        from_manifest=True,
    )


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        document = load(data)
    except NotEditableError:
        return None
    return document if _is_pod(document) else None


def _is_pod(document: Json) -> bool:
    metadata, spec = document.get("metadata"), document.get("spec")
    if document.get("kind") != "Pod" or not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        return False
    lists = (spec.get("initContainers") or [], spec.get("containers"))
    return all(isinstance(each, list) and all(isinstance(one, Mapping) for one in each) for each in lists)


def _full_name(manifest: Json, node_name: str) -> FullName:
    metadata = manifest["metadata"]
    return str(metadata.get("namespace") or "default"), f"{metadata.get('name')}-{node_name.lower()}"
