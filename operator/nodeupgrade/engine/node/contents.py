"""Whole files: as before-images in the journal, and whether they are what was promised."""

import base64
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.engine.node.node import Node


def read_contents(node: Node, paths: Iterable[PurePosixPath]) -> dict[str, JsonValue]:
    """Content of each file as base64 text, ``None`` where there is no such file."""
    contents: dict[str, JsonValue] = {}
    for path in paths:
        data = node.files.read(path)
        contents[str(path)] = None if data is None else base64.b64encode(data).decode("ascii")
    return contents


def restore_contents(node: Node, contents: Mapping[str, JsonValue]) -> None:
    """Make each file what it was, including absent; files that already are so are not written."""
    for name, content in contents.items():
        path = PurePosixPath(name)
        before = None if content is None else base64.b64decode(str(content))
        if node.files.read(path) == before:
            continue
        if before is None:
            node.files.remove(path)
        else:
            node.files.write(path, before)


def require_digest(node: Node, path: str, promised: Collection[Digest]) -> None:
    """Read a program.

    Raises:
        StepFailed: it is none of those that were planned for.
    """
    found = node.files.digest(PurePosixPath(path))
    if found not in promised:
        raise StepFailed(
            f"{path} has SHA-256 {found}, planned {' or '.join(promised)}: it was changed after planning",
            reason=Reason.DIGEST_MISMATCH,
        )
