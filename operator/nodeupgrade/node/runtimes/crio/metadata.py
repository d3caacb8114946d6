"""Replaces the hashes in a container's ``config.json`` and leaves every other byte unchanged. Pure.

CRI-O keeps the kubelet's annotations twice in the OCI specification that it stores with each container: as annotations
of their own, and as JSON in the annotation ``io.kubernetes.cri-o.Annotations``, which is the one that it reads when it
starts. A starting CRI-O *deletes* a container whose file it cannot read, and it cannot be brought back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.values import SandboxId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEYS
from nodeupgrade.node.runtimes.cri.hash_text import HashText
from nodeupgrade.text import parse_json

INNER = "io.kubernetes.cri-o.Annotations"
SANDBOX = "io.kubernetes.cri-o.SandboxID"
MANAGER = "io.container.manager"
NEEDED = ("Labels", "Metadata", "Annotations", "Created", "SandboxID", "Name")
"""Without one of these, each below ``io.kubernetes.cri-o.``, a starting CRI-O deletes the container."""


@dataclass(frozen=True, slots=True)
class StoredSpecification(HashText):
    """The ``config.json`` of one container."""

    RUNTIME = "CRI-O"
    WHAT = "config.json"

    path: PurePosixPath = field(default=PurePosixPath("/"), compare=False)  # where it is on the node

    def parsed(self) -> tuple[Mapping[str, Any], object]:
        """Return the annotations of the specification, with those that CRI-O reads as a map, and the rest of both."""
        document = self.json(self.data, "its config.json")
        outer, inner = self._annotations(document)
        others = {key: value for key, value in outer.items() if key not in {*HASH_KEYS, INNER}}
        rest = {**document, "annotations": others}, {k: value for k, value in inner.items() if k not in HASH_KEYS}
        return {**outer, INNER: inner}, rest

    def put(self, text: bytes, name: str, old: HashValue, new: HashValue) -> bytes:
        for place in (_inner(name, old), _outer(name, old)):
            text = place.sub(rb"\g<1>" + new.encode() + rb"\g<2>", text)
        return text

    def value(self, name: str, values: Mapping[str, Any]) -> HashValue | None:
        outer, inner = values, values[INNER]
        if (value := self.hash_in(inner, name)) is None:
            if name in outer:
                raise self.unexpected(f"its annotation {name} is not among those that CRI-O reads")
            return None
        if outer.get(name, value) != value:
            raise self.unexpected(f"its annotation {name} is {value} in one place and {outer[name]!r} in the other")
        found = len(_inner(name, value).findall(self.data)), len(_outer(name, value).findall(self.data))
        if found != (1, int(name in outer)):
            raise self.unexpected(f"its annotation {name} is found {found[0]} and {found[1]} times in the text")
        return value

    def sandbox(self) -> SandboxId:
        """Return the id of the container's sandbox."""
        return SandboxId(str(self.parsed()[0][SANDBOX]))

    def _annotations(self, document: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the annotations of the specification, and those of the kubelet that CRI-O reads."""
        match document:
            case {"annotations": dict(outer)}:
                pass
            case _:
                raise self.unexpected("it has no annotations")
        if missing := [name for name in NEEDED if f"io.kubernetes.cri-o.{name}" not in outer]:
            raise self.unexpected(f"it lacks what CRI-O needs to find it again: {', '.join(missing)}")
        if outer.get(MANAGER, "cri-o") != "cri-o":
            raise self.unexpected(f"it is managed by {outer[MANAGER]}")
        try:
            inner = parse_json(outer[INNER])
        except (ValueError, TypeError) as error:
            raise self.unexpected(f"its annotations for CRI-O are not JSON ({error})") from error
        if not isinstance(inner, dict):
            raise self.unexpected("its annotations for CRI-O are not a map")
        return outer, inner


def _outer(key: str, value: str) -> re.Pattern[bytes]:
    return re.compile(rb'((?<!\\)"%b"\s*:\s*")%b(")' % (re.escape(key).encode(), value.encode()))


def _inner(key: str, value: str) -> re.Pattern[bytes]:
    return re.compile(rb'((?<!\\)\\"%b\\"\s*:\s*\\")%b(\\")' % (re.escape(key).encode(), value.encode()))
