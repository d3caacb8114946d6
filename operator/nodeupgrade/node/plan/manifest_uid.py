"""Write ``metadata.uid`` into a static pod's manifest, and take it out again, without changing any other byte.

YAML in block style gets a line, with a comment above it that says what to do with both. Flow style and JSON, which
has no comments, get a member. As for kubelets, only the first of several YAML documents counts.
"""

import io
import json
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

import yaml

from nodeupgrade.api.values import Digest
from nodeupgrade.api.yaml import read_all
from nodeupgrade.text import BLANKS, parse_json, trimmed

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
    """Return a manifest without what `pin` added, with or without its comment; ``None`` if `pin` did not write it."""
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


def edited(now: bytes | None, before: bytes) -> bool:
    """Report whether a manifest was removed, or describes another pod than before, whatever UID it names."""
    try:
        return now is None or _without_uid(load(now)) != _without_uid(load(before))
    except NotEditableError:
        return False


@lru_cache(maxsize=64)
def digests_of(data: bytes | None) -> tuple[Digest, ...]:
    """Return the digest of a manifest, and of the pod that it describes, whatever UID it names; none without one.

    Only the second tells an edit from the same manifest written anew, such as with another comment. Cached: a call that
    waits at the shield asks ten times a second.
    """
    if data is None:
        return ()
    own = Digest(sha256(data).hexdigest())
    try:
        described = json.dumps(_without_uid(load(data)), sort_keys=True)
    except NotEditableError:
        return (own,)
    return own, Digest(sha256(described.encode()).hexdigest())


def _without_uid(manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = manifest.get("metadata")
    named = {key: value for key, value in metadata.items() if key != "uid"} if isinstance(metadata, dict) else metadata
    return {**manifest, "metadata": named}


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
            return parse_json(text)
        except ValueError as error:
            raise NotEditableError(f"it begins like JSON, but is not JSON: {error}") from error
    return next(read_all(text), None)


def _is_json(text: str) -> bool:
    return text.lstrip(BLANKS).startswith("{")


def _insert(text: str, uid: object, comment: str) -> str:
    node = _metadata(text)
    if node.flow_style:
        at = node.start_mark.index + 1
        return f"{text[:at]}{_member(uid)}{text[at:]}"
    first = node.value[0][0].start_mark
    at = first.index - first.column
    if trimmed(text[at : first.index]):
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
    # PyYAML's pure parser rejects tabs that kubelets read; positions are the same with blanks. Of a text, but not of a
    # stream, its errors quote the line, which may hold a secret.
    spaced = io.StringIO(text.replace("\t", " "))
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
