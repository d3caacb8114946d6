"""Ask an oracle what its release computes for pods."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_PACKAGE = re.compile(r"\b(?:resource|intstr|v1)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a release computes for one pod."""

    hashes: Mapping[str, str]  # the hash of each container, init containers included
    qos: str  # the pod's QoS class
    uid: str  # the UID of a static pod
    error: str  # why the pod could not be read; the rest is empty then


@dataclass(frozen=True, slots=True)
class GoField:
    """A field of a Go struct in the release."""

    name: str
    type: str
    key: str
    omitempty: bool


def container_types(program: Path) -> dict[str, tuple[GoField, ...]]:
    """Return the structs that a container is made of."""
    (found,) = _lines(program, "-types")
    return {struct: tuple(map(_field, fields or ())) for struct, fields in found.items()}


def served(program: Path, pods: Iterable[Json]) -> dict[str, Answer]:
    """Ask about pods as the API serves them."""
    return _answers(_lines(program, "-pods", given="".join(f"{json.dumps(pod)}\n" for pod in pods)))


def static(program: Path, manifests: Iterable[Json], gates: str = "") -> dict[str, Answer]:
    """Ask about static pods; those that the release rejects are left out."""
    with tempfile.TemporaryDirectory() as directory:
        for manifest in manifests:
            (Path(directory) / f"{manifest['metadata']['name']}.json").write_text(json.dumps(manifest))
        return _answers(_lines(program, "-manifests", directory, *(["-gates", gates] if gates else [])))


def _field(given: Mapping[str, str]) -> GoField:
    key, *options = given["tag"].split(",")
    return GoField(given["name"], _PACKAGE.sub("", given["type"]), key, "omitempty" in options)


def _answers(lines: Iterator[Json]) -> dict[str, Answer]:
    return {
        line["name"]: Answer(
            hashes=line.get("hashes", {}), qos=line.get("qos", ""), uid=line.get("uid", ""), error=line.get("error", "")
        )
        for line in lines
    }


def _lines(program: Path, *arguments: str, given: str = "") -> Iterator[Json]:
    asked = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, check=True, timeout=600)
    return map(json.loads, asked.stdout.splitlines())
