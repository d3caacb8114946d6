"""Whole files as before-images in the journal."""

import base64
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from nodeupgrade.domain.codec import Json
from nodeupgrade.engine.node import Node


def read_contents(node: Node, paths: Iterable[PurePosixPath]) -> dict[str, Json]:
    """Content of each file as base64 text, ``None`` where there is no such file."""
    contents: dict[str, Json] = {}
    for path in paths:
        data = node.files.read(path)
        contents[str(path)] = None if data is None else base64.b64encode(data).decode("ascii")
    return contents


def restore_contents(node: Node, contents: Mapping[str, Json]) -> None:
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
