"""Static pods: match them with their manifests, and plan which of these name the UID of the running pod.

A static pod's UID is a hash of its decoded manifest and changes with almost every minor. A UID in the manifest itself
does not change; so the present one is written into the manifest, and nothing else. It is taken out again as soon as a
kubelet computes the same UID by itself: see docs/decisions/static-pods.md.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest, PodRef
from nodeupgrade.api.yaml import read_all
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.derived_uids import OwnUid
from nodeupgrade.domain.node.inventory import Inventory, SandboxInstance
from nodeupgrade.domain.node.plan import StaticPodPin
from nodeupgrade.domain.pods import Pod, Role, parse_pod
from nodeupgrade.kubelethash import UnhashableContainer, default_static_container


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
    """What is done about the UIDs in manifests."""

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
        paths = [path for path, document in parsed.items() if _is_of(document, sandbox.pod, node_name)]
        if len(paths) != 1:
            findings.append(_without_source(sandbox, paths, unread=manifests.keys() - parsed.keys()))
        elif (other := pods.get(paths[0])) is not None:
            detail = f"it runs under two UIDs at once, {other.sandbox.pod.uid} and {sandbox.pod.uid}"
            findings.append(Finding(reason=Reason.POD_IN_TRANSITION, subject=str(sandbox.pod), detail=detail))
        else:
            path = paths[0]
            pods[path] = StaticPod(path=path, data=manifests[path], manifest=parsed[path], sandbox=sandbox)
    return StaticPods(pods=tuple(pods.values()), findings=tuple(findings))


def _without_source(sandbox: SandboxInstance, paths: list[str], *, unread: Collection[str]) -> Finding:
    found = "no manifest" if not paths else f"{len(paths)} manifests ({', '.join(paths)})"
    hint = f"; not readable as one pod: {', '.join(sorted(unread))}" if unread and not paths else ""
    detail = f"{found} in the kubelet's manifest directory can be its source{hint}"
    return Finding(reason=Reason.STATIC_POD_NOT_EDITABLE, subject=str(sandbox.pod), detail=detail)


def plan_pins(
    static: StaticPods, is_needless: Callable[[StaticPod, bytes], bool] = lambda _pod, _without: False
) -> Pins:
    """Plan the changes of the manifests so that every pod keeps its UID.

    ``is_needless`` reports of a pod, and of its manifest without the UID that an earlier run wrote into it, whether the
    new kubelet computes the same UID by itself.
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
    """Plan that no manifest keeps a UID which an earlier run wrote.

    ``moves`` if the new kubelet gives other UIDs to pods whose manifests name none.
    """
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

    ``known`` returns what the manifest was like when that run found it; ``None`` if that is not known.
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


def _is_of(manifest: Json, pod: PodRef, node_name: str) -> bool:
    metadata = manifest["metadata"]
    name = f"{metadata.get('name')}-{node_name.lower()}"
    return (str(metadata.get("namespace") or "default"), name) == (pod.namespace, pod.name)


# Write ``metadata.uid`` into a static pod's manifest, and take it out again, without changing any other byte.
#
# YAML in block style gets a line, with a comment above it that says what to do with both. Flow style and JSON, which
# has no comments, get a member. Manifests are read as kubelets read them: of several YAML documents, only the first
# counts.

COMMENT = "# nodeupgrade: the next line keeps the running pod. Delete both with your next edit, or it will not count."


class NotEditableError(ValueError):
    """The manifest cannot be changed safely."""


def pin(data: bytes, uid: str) -> bytes:
    """Add ``metadata.uid`` to a manifest, YAML or JSON, without changing any other byte.

    Raises:
        NotEditableError: the UID cannot be added, or the result would not read as the same pod plus the UID.
    """
    before = load(data)
    metadata = before.get("metadata")
    if not isinstance(metadata, dict):
        raise NotEditableError("metadata is not a map")
    if "uid" in metadata:
        if str(metadata["uid"]) != uid:
            raise NotEditableError(f"it names the UID {metadata['uid']}, but its pod runs as {uid}")
        return data
    pinned = _insert(data.decode("utf-8"), uid, COMMENT).encode("utf-8")
    if load(pinned) != {**before, "metadata": {**metadata, "uid": uid}}:
        raise NotEditableError("with the UID added it would not read as the same pod")
    return pinned


def unpin(data: bytes) -> bytes | None:
    """Return a manifest without what `pin` added, be there a comment or not; ``None`` if `pin` did not write it so."""
    try:
        metadata = load(data).get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        text = data.decode("utf-8")
        candidates = tuple(_without(text, _metadata(text), uid)) if isinstance(uid, str) else ()
        return next(
            (found.encode("utf-8") for found, comment in candidates if _insert(found, uid, comment) == text), None
        )
    except NotEditableError:
        return None


def load(data: bytes) -> dict[str, Any]:
    """Read a manifest.

    Raises:
        NotEditableError: it is no map in YAML or JSON, or a kubelet would not read it.
    """
    try:
        document = _first_document(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotEditableError("it is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise NotEditableError(f"it is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise NotEditableError("it is not a map")
    return document


def _first_document(text: str) -> Any:
    """Read as kubelets do: what begins with a brace is JSON, and nothing may follow it (seen with 1.30)."""
    if _is_json(text):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise NotEditableError(f"it begins like JSON, but is none: {error}") from error
    return next(read_all(text), None)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _insert(text: str, uid: object, comment: str) -> str:
    node = _metadata(text)
    if node.flow_style:
        at = node.start_mark.index + 1
        return f"{text[:at]}{_member(uid)}{text[at:]}"
    first = node.value[0][0].start_mark
    at = first.index - first.column
    if text[at : first.index].strip():
        raise NotEditableError("metadata does not start on a line of its own")
    return f"{text[:at]}{_lines(uid, first.column, comment)}{text[at:]}"


def _without(text: str, node: yaml.MappingNode, uid: object) -> Iterator[tuple[str, str]]:
    """Yield the text without what `_insert` may have added, and the comment that went with it."""
    if node.flow_style:
        at, piece = node.start_mark.index + 1, _member(uid)
        if text.startswith(piece, at):
            yield text[:at] + text[at + len(piece) :], ""
        return
    first = node.value[0][0].start_mark
    end = first.index - first.column + len(_lines(uid, first.column, ""))
    for comment in (COMMENT, ""):
        piece = _lines(uid, first.column, comment)
        if text.endswith(piece, 0, end):
            yield text[: end - len(piece)] + text[end:], comment


def _metadata(text: str) -> yaml.MappingNode:
    """Return the node of the metadata, with its position in the text."""
    # JSON may be indented with tabs, which PyYAML's pure parser rejects; positions are the same with blanks.
    spaced = text.replace("\t", " ") if _is_json(text) else text
    try:
        root = next(yaml.compose_all(spaced, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise NotEditableError(f"it is not plain YAML: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise NotEditableError("it is not a map")
    node = next((value for key, value in root.value if key.value == "metadata"), None)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise NotEditableError("metadata is empty, or comes from elsewhere by a merge key")
    return node


def _member(uid: object) -> str:
    return f'"uid": "{uid}", '


def _lines(uid: object, column: int, comment: str) -> str:
    indent = " " * column
    told = f"{indent}{comment}\n" if comment else ""
    return f'{told}{indent}uid: "{uid}"\n'
