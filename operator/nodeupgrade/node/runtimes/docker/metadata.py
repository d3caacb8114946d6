"""Replaces the hashes in a container's stored configuration and leaves every other byte unchanged.

dockerd keeps a container's state in ``config.v2.json``, a JSON object in one line. ``Config`` is the configuration that
it was created with, with the kubelet's annotations among the labels; the rest is dockerd's own, and changes with every
event. So only the bytes of that value are stored, compared and restored.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.cri.hash_text import HashText
from nodeupgrade.text import parse_json

ENCODING = "config.v2.json/Config"
ANNOTATION = "annotation."
"""Prefix of the labels in which dockershim and cri-dockerd keep annotations."""
HASH_LABEL = f"{ANNOTATION}{HASH_KEY}"
HASH_WITHOUT_RESOURCES_LABEL = f"{ANNOTATION}{HASH_WITHOUT_RESOURCES_KEY}"
HASH_LABELS = (HASH_LABEL, HASH_WITHOUT_RESOURCES_LABEL)
CONFIG, ID = "Config", "ID"
BLANKS = " \t\r\n"

_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class StoredConfig(HashText):
    """The configuration of one container, in its ``config.v2.json``."""

    RUNTIME = "Docker"
    NAMES = HASH_LABELS
    KIND = "label"
    WHAT = "configuration"

    # the rest of the file, before and after it
    head: str = field(default="", compare=False)
    tail: str = field(default="", compare=False)

    @classmethod
    def of(cls, container_id: ContainerId, content: bytes) -> Self:
        """Find the configuration in the bytes of a file.

        Raises:
            UnexpectedMetadata: the file is not what dockerd writes for this container.
        """
        unexpected = cls(container_id, content).unexpected
        try:
            text = content.decode()
            members = _members(text)
        except (ValueError, IndexError, RecursionError) as error:
            raise unexpected(f"its file is not a JSON object ({error})") from error
        found = [span for name, span in members if name == CONFIG]
        ids = [parse_json(text[slice(*span)]) for name, span in members if name == ID]
        if ids != [container_id]:
            raise unexpected(f"its file belongs to {ids or 'no container'}")
        if len(found) != 1:
            raise unexpected(f"its file has {len(found)} configurations instead of one")
        [(start, end)] = found
        return cls(container_id, text[start:end].encode(), text[:start], text[end:])

    @property
    def content(self) -> bytes:
        """The bytes of the whole file."""
        return f"{self.head}{self.data.decode()}{self.tail}".encode()

    def parsed(self) -> tuple[Mapping[str, Any], object]:
        document = self.json(self.data, "its configuration")
        labels = self._labels(document)
        return {label: labels.pop(label) for label in HASH_LABELS if label in labels}, document

    def _labels(self, document: Any) -> dict[str, Any]:
        match document:
            case {"Labels": dict(labels)}:
                return labels
            case {"Labels": None}:
                return {}
            case {"Labels": _}:
                raise self.unexpected("its labels are not an object")
            case dict():
                return {}
            case _:
                raise self.unexpected("its configuration is not an object")


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
