"""Start the new kubelet without the flags it no longer knows, by a systemd drop-in that a rollback removes."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.exchange import read_contents, restore_contents
from nodeupgrade.engine.node.node import Node

DROP_IN_MODE = 0o644


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return what is at the drop-in's path now, usually nothing."""
    arguments = plan.swap.arguments
    return {} if arguments is None else read_contents(node, [PurePosixPath(arguments.path)])


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Write the drop-in and make systemd load it."""
    arguments = plan.swap.arguments
    if arguments is None:
        return
    node.files.write(PurePosixPath(arguments.path), arguments.content, mode=DROP_IN_MODE)
    node.services.reload()


def undo(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Restore what was there."""
    if plan.swap.arguments is None:
        return
    restore_contents(node, payload)
    node.services.reload()


def is_done(_node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether there is nothing to write; otherwise do it again, since systemd may not have loaded it."""
    return plan.swap.arguments is None
