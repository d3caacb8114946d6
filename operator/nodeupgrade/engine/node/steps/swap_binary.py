"""Exchange the kubelet program by one rename."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.journal import Step
from nodeupgrade.engine.node.contents import require_digest
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Nothing has to be remembered: the backup was made before the kubelet stopped."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the staged program in place; the staged name stays, so that repeating it is harmless.

    Neither program may be another one by now than was confirmed. Their digests cost too much time without a kubelet,
    unless there is a doubt.
    """
    swap, confirmed = plan.swap, node.recorded(Step.CONFIRM_BINARIES) or {}
    new, either = {confirmed.get(swap.staged)}, {confirmed.get(swap.path), confirmed.get(swap.staged)}
    for path, known, promised in (
        (swap.staged, new, {swap.after}),
        (swap.path, either, {swap.before, swap.after}),  # the new one if this is a repetition
    ):
        if node.files.stamp(PurePosixPath(path)) not in known - {None}:
            require_digest(node, path, promised)
    node.files.replace(PurePosixPath(plan.swap.staged), PurePosixPath(plan.swap.path))


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the backup in place."""
    node.files.replace(PurePosixPath(plan.swap.backup), PurePosixPath(plan.swap.path))


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Whether the program in place is the new one."""
    return node.files.digest(PurePosixPath(plan.swap.path)) == plan.swap.after
