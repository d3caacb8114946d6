"""Save the kubelet's state files, some of which an older kubelet refuses once a newer one has rewritten them."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.exchange import read_contents, restore_contents
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.rescue import lay_down


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the content of the files, which is kept in the journal."""
    return read_contents(node, (PurePosixPath(path) for path in plan.state_files))


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Update the rescue script with the files, and the hashes as they are now. The journal has the files already."""
    lay_down(node, plan)


def undo(node: Node, _plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Restore each file that existed and was changed.

    Files that only the newer kubelet created stay: an older one ignores them, and the next upgrade uses them.
    """
    restore_contents(node, {path: content for path, content in payload.items() if content is not None})


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption; a script that is up to date is not written twice."""
    return False
