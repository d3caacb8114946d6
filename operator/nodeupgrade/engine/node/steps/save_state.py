"""Keep the kubelet's state files, some of which an older kubelet refuses once a newer one has rewritten them."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.contents import read_contents, restore_contents
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.rescue import lay_down


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Read the files; the journal is where they are kept."""
    return read_contents(node, (PurePosixPath(path) for path in plan.state_files))


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Announcing the step saved the files; the rescue script must know them too, and the hashes as they are now."""
    lay_down(node, plan)


def undo(node: Node, _plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Put back each file that was there and reads differently now.

    Files that only the newer kubelet has stay: an older one does not look at them, and a next upgrade does.
    """
    restore_contents(node, {path: content for path, content in payload.items() if content is not None})


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption; what is there already is not written twice."""
    return False
