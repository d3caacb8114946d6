"""Swap the kubelet program by one rename."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.task.step import Step
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.exchange import require_digest
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: the backup was made before the kubelet stopped."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the staged program in place; the staged path stays, so that a repetition is harmless.

    Both programs must still be the confirmed ones. Digests take too long without a kubelet, so they are only computed
    if a stamp differs.
    """
    swap, confirmed = plan.swap, node.recorded(Step.CONFIRM_BINARIES) or {}
    new, either = {confirmed.get(swap.staged)}, {confirmed.get(swap.path), confirmed.get(swap.staged)}
    for path, known, promised in (
        (swap.staged, new, {swap.after}),
        (swap.path, either, {swap.before, swap.after}),  # the new one, if this is a repetition
    ):
        if node.files.stamp(PurePosixPath(path)) not in known - {None}:
            require_digest(node, path, promised)
    node.files.replace(PurePosixPath(plan.swap.staged), PurePosixPath(plan.swap.path))


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the backup in place."""
    node.files.replace(PurePosixPath(plan.swap.backup), PurePosixPath(plan.swap.path))


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether the program in place is the new one."""
    return node.files.digest(PurePosixPath(plan.swap.path)) == plan.swap.after
