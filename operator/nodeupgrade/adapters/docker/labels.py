"""Replaces the hashes in a container's stored configuration and leaves every other byte unchanged.

dockerd keeps a container's state in ``config.v2.json``, a JSON object in one line. What it was created with is under
``Config``, the kubelet's annotations among its labels; the rest is dockerd's own, and changes with every event. So the
bytes of that one value are what is remembered, compared and put back. They are never parsed and serialized again: the
hashes are replaced in the text, and everything else is proven to be unchanged.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from nodeupgrade.adapters.cri.client import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.adapters.cri.stored import OddMetadata, SingleHashes, odd
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.inventory import StoredHashes

ENCODING = "config.v2.json/Config"
ANNOTATION = "annotation."
"""Prefix of the labels in which dockershim and cri-dockerd keep annotations."""
HASH_LABEL = f"{ANNOTATION}{HASH_KEY}"
HASH_WITHOUT_RESOURCES_LABEL = f"{ANNOTATION}{HASH_WITHOUT_RESOURCES_KEY}"
LABELS = (HASH_LABEL, HASH_WITHOUT_RESOURCES_LABEL)
CONFIG, ID = "Config", "ID"
BLANKS = " \t\r\n"

_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The content of one ``config.v2.json``, split around the value of ``Config``."""

    head: str
    config: str
    tail: str

    @property
    def data(self) -> bytes:
        """The bytes of the configuration."""
        return self.config.encode()

    def holding(self, config: bytes) -> bytes:
        """Return the file's bytes with another configuration."""
        return f"{self.head}{config.decode()}{self.tail}".encode()


def split(container_id: ContainerId, content: bytes) -> StoredFile:
    """Find the configuration in the bytes of a file.

    Raises:
        OddMetadata: the file is not what dockerd writes for this container.
    """
    try:
        text = content.decode()
        members = _members(text)
    except (ValueError, IndexError) as error:
        raise _odd(container_id, f"its file is not a JSON object ({error})") from error
    found = [span for name, span in members if name == CONFIG]
    ids = [json.loads(text[slice(*span)]) for name, span in members if name == ID]
    if ids != [container_id]:
        raise _odd(container_id, f"its file belongs to {ids or 'nobody'}")
    if len(found) != 1:
        raise _odd(container_id, f"its file has {len(found)} configurations instead of one")
    [(start, end)] = found
    return StoredFile(text[:start], text[start:end], text[end:])


def read_hashes(container_id: ContainerId, config: bytes) -> StoredHashes:
    """Return the hashes in a configuration, after proving that they can be replaced.

    Raises:
        OddMetadata: they cannot.
    """
    return _hashes(container_id).read(config)


def rewritten(container_id: ContainerId, config: bytes, wanted: StoredHashes) -> bytes:
    """Return the configuration with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing label is never added.

    Raises:
        OddMetadata: as for read_hashes(), or a wanted value is not a hash.
    """
    return _hashes(container_id).rewritten(config, wanted)


def _hashes(container_id: ContainerId) -> SingleHashes:
    return SingleHashes(
        document=partial(_parsed, container_id),
        values=partial(_labels, container_id),
        entry=entry,
        complain=partial(_odd, container_id),
        names=LABELS,
        kind="label",
    )


def entry(label: str, value: str) -> bytes:
    """Return a label as dockerd writes it, in its files and in its answers."""
    return f'"{label}":"{value}"'.encode("ascii")


def _members(text: str) -> list[tuple[str, tuple[int, int]]]:
    """Return names and spans of the members of a JSON object.

    Raises:
        ValueError, IndexError: the text is not one JSON object.
    """
    found: list[tuple[str, tuple[int, int]]] = []
    at = _skip(text, 0, "{")
    while text[at] != "}":
        name, at = _decoder.raw_decode(text, _blank(text, at))
        start = _blank(text, _skip(text, at, ":"))
        _, end = _decoder.raw_decode(text, start)
        found.append((str(name), (start, end)))
        at = _blank(text, end)
        if text[at] != "}":
            at = _blank(text, _skip(text, at, ","))
    if text[at + 1 :].strip(BLANKS):
        raise ValueError("something follows it")
    return found


def _skip(text: str, at: int, mark: str) -> int:
    at = _blank(text, at)
    if text[at] != mark:
        raise ValueError(f"{mark} is missing at {at}")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while text[at] in BLANKS:
        at += 1
    return at


def _parsed(container_id: ContainerId, config: bytes) -> dict[str, Any]:
    try:
        document = json.loads(config)
    except ValueError as error:
        raise _odd(container_id, f"its configuration is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise _odd(container_id, "its configuration is not an object")
    return document


def _labels(container_id: ContainerId, document: dict[str, Any]) -> dict[str, Any]:
    match document.get("Labels"):
        case dict(labels):
            return labels
        case None:
            return {}
        case _:
            raise _odd(container_id, "its labels are not an object")


def _odd(container_id: ContainerId, why: str) -> OddMetadata:
    return odd(container_id, why, runtime="Docker")
