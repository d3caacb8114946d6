"""The kubelet's state files during a run: saved while no kubelet runs, and left alone by a rollback where possible.

What the new kubelet recorded about pods that came, such as their devices, then stays known to the old one.
"""

import base64
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import DEVICE_STATE, state_name, state_place
from nodeupgrade.kubelet.state_files.device_checkpoint import with_newcomers
from nodeupgrade.kubelet.state_files.formats import breaks, unreadable
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.host.files.files import EntryKind
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import kept_files


def save(node: Node, plan: RunPlan, earlier: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the content of each state file as base64 text; ``None`` if there is no such file.

    Args:
        node: the node.
        plan: the plan of the run.
        earlier: what this returned earlier; it counts for a file in whose place something else lies by now.

    Raises:
        StepFailed: something else lies in the place of a file, of which nothing is known.
    """
    saved: dict[str, JsonValue] = {}
    for path in plan.state_files:
        try:
            data = node.files.read_state(PurePosixPath(path))
        except StepFailed:
            if path not in earlier:
                raise
            saved[path] = earlier[path]
        else:
            saved[path] = None if data is None else base64.b64encode(data).decode("ascii")
    return saved


def put_right(node: Node, saved: Mapping[str, JsonValue]) -> None:
    """Restore or remove each file in whose place something else lies, since a kubelet may not start with it.

    Raises:
        StepFailed: a directory lies there, or the file cannot be written.
    """
    for path, content in saved.items():
        try:
            node.files.read_state(PurePosixPath(path))
        except StepFailed:
            _write(node, path, _decoded(content))


def to_break(node: Node, plan: RunPlan) -> Iterator[tuple[str, bytes | None]]:
    """Yield path and content of each state file that the new kubelet writes in a format unknown to the old one.

    Raises:
        StepFailed: something else lies there.
    """
    old, new = _versions(plan)
    changed = (path for path in plan.state_files if breaks(state_name(path), old, new))
    return ((path, node.files.read_state(PurePosixPath(path))) for path in changed)


def restore(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> str | None:
    """Restore each file that the old kubelet could not read; return a sentence about what lay there in place of a file.

    Raises:
        StepFailed: a file cannot be restored, and the old kubelet could not start with it.
    """
    told = [_restore(node, plan, path, _decoded(saved)) for path, saved in payload.items()]
    return "; ".join(filter(None, told)) or None


def set_directory_aside(node: Node, path: str) -> PurePosixPath | None:
    """Move aside a directory, which no file can replace; return where it is."""
    entry = node.files.entry(at := PurePosixPath(path))
    return node.files.set_aside(at) if entry is not None and entry.kind is EntryKind.DIRECTORY else None


def _restore(node: Node, plan: RunPlan, path: str, before: bytes | None) -> str | None:
    try:
        now = node.files.read_state(PurePosixPath(path))
    except StepFailed as odd:
        return f"{odd}; it was {_replace(node, plan, path, before)}"
    old, new = _versions(plan)
    if now == before or (now is not None and unreadable(state_name(path), now, old, new) is None):
        return None
    merged = with_newcomers(before, now) if before is not None and path.endswith(DEVICE_STATE) else before
    _put_back(node, plan, path, merged, before)
    return None


def _replace(node: Node, plan: RunPlan, path: str, before: bytes | None) -> str:
    """Replace what is not a file of the kubelet's, which may not start with it; return what became of it."""
    try:
        aside = set_directory_aside(node, path)
        _put_back(node, plan, path, before, before)
    except StepFailed as error:
        return f"left as it is ({error})"
    if aside is not None:
        return f"moved to {aside}"
    return "removed" if before is None else "replaced by what was there before the new kubelet"


def _put_back(node: Node, plan: RunPlan, path: str, data: bytes | None, before: bytes | None) -> None:
    """Write a file; where no space is left, put back what was there before the new kubelet."""
    if before is None:
        _write(node, path, data)
    else:
        kept_files.put_back(node, plan, path, before, partial(_write, node, path, data))


def _decoded(content: JsonValue) -> bytes | None:
    return None if content is None else base64.b64decode(str(content))


def _write(node: Node, path: str, data: bytes | None) -> None:
    node.files.write_state(PurePosixPath(path), data, state_place(path).parent)


def _versions(plan: RunPlan) -> tuple[KubeletVersion, KubeletVersion]:
    return KubeletVersion.parse(plan.from_version), KubeletVersion.parse(plan.to_version)
