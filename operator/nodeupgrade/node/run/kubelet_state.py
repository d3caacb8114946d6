"""The kubelet's state files during a run: saved while no kubelet runs, and left alone by a rollback where possible.

What the new kubelet recorded about pods that came, such as their devices, then stays known to the old one.
"""

import base64
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import DEVICE_STATE, state_name, state_place
from nodeupgrade.kubelet.state_files.device_checkpoint import with_newcomers
from nodeupgrade.kubelet.state_files.formats import breaks, unreadable
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.steps.actions import Payload


def save(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the content of each state file as base64 text; ``None`` if there is no such file.

    Raises:
        StepFailed: something else lies there.
    """
    contents = _contents(node, plan.state_files)
    return {path: None if data is None else base64.b64encode(data).decode("ascii") for path, data in contents}


def to_break(node: Node, plan: RunPlan) -> Iterator[tuple[str, bytes | None]]:
    """Yield path and content of each state file that the new kubelet writes in a format unknown to the old one.

    Raises:
        StepFailed: something else lies there.
    """
    old, new = _versions(plan)
    return _contents(node, (path for path in plan.state_files if breaks(state_name(path), old, new)))


def restore(node: Node, plan: RunPlan, payload: Payload) -> str | None:
    """Restore each file that the old kubelet could not read; return a sentence about what lay there in place of a file.

    Raises:
        StepFailed: a file cannot be restored, and the old kubelet could not start with it.
    """
    told = [_restore(node, plan, path, None if saved is None else str(saved)) for path, saved in payload.items()]
    return "; ".join(filter(None, told)) or None


def _restore(node: Node, plan: RunPlan, path: str, saved: str | None) -> str | None:
    before = None if saved is None else base64.b64decode(saved)
    try:
        now = node.files.read_state(PurePosixPath(path))
    except StepFailed as odd:
        return f"{odd}; it was {_replace(node, path, before)}"
    old, new = _versions(plan)
    if now == before or (now is not None and unreadable(state_name(path), now, old, new) is None):
        return None
    if before is None:
        node.files.remove(PurePosixPath(path))
    else:
        _write(node, path, with_newcomers(before, now) if path.endswith(DEVICE_STATE) else before)
    return None


def _replace(node: Node, path: str, before: bytes | None) -> str:
    """Replace what is not a file of the kubelet's, which may not start with it; return what became of it."""
    if before is None:
        return "left as it is"
    try:
        _write(node, path, before)
    except StepFailed as error:
        return f"left as it is ({error})"
    return "replaced by what was there before the new kubelet"


def _write(node: Node, path: str, data: bytes) -> None:
    node.files.write_state(PurePosixPath(path), data, state_place(path).parent)


def _contents(node: Node, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    return ((path, node.files.read_state(PurePosixPath(path))) for path in paths)


def _versions(plan: RunPlan) -> tuple[KubeletVersion, KubeletVersion]:
    return KubeletVersion.parse(plan.from_version), KubeletVersion.parse(plan.to_version)
