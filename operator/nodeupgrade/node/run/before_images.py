"""Read and restore whole files, as before-images in the journal, and check digests of programs."""

import base64
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node


def read_contents(node: Node, paths: Iterable[PurePosixPath]) -> dict[str, JsonValue]:
    """Return the content of each file as base64 text; ``None`` if the file does not exist."""
    contents: dict[str, JsonValue] = {}
    for path in paths:
        data = node.files.read(path)
        contents[str(path)] = None if data is None else base64.b64encode(data).decode("ascii")
    return contents


def restore_contents(node: Node, contents: Mapping[str, JsonValue]) -> None:
    """Restore each file, or remove it if it did not exist; a file that is already restored is not written."""
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
    """Require a program to have one of the planned digests.

    Raises:
        StepFailed: it has none of them.
    """
    found = node.files.digest(PurePosixPath(path))
    if found not in promised:
        raise StepFailed(
            f"{path} has SHA-256 {found or 'none, it is gone'}, planned {' or '.join(promised)}: it was changed after "
            "planning",
            reason=Reason.DIGEST_MISMATCH,
        )
