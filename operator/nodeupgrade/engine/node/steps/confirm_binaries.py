"""Before anything is touched: every program is what the plan says, and the old kubelet's has a backup.

Reading them whole takes longer than the rest of the kubelet's downtime, so it happens while the kubelet runs.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.contents import require_digest
from nodeupgrade.engine.node.node import Node


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Keep by what it shows, later and at no cost, that the programs are still those that were read."""
    runtime = () if plan.runtime_start is None else (plan.runtime_start.program,)
    return {path: node.files.stamp(PurePosixPath(path)) for path in (plan.swap.path, plan.swap.staged, *runtime)}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Link the old program under its backup name, and check the digests.

    It is the backup that is read: should another program take the old one's place at any time, the backup is not it.
    What cannot be exchanged, since it is a symbolic link by now, is refused here and not with the kubelet down.
    """
    swap = plan.swap
    node.files.tidy(PurePosixPath(swap.path))
    node.files.replace(PurePosixPath(swap.path), PurePosixPath(swap.backup))
    require_digest(node, swap.backup, {swap.before})
    require_digest(node, swap.staged, {swap.after})
    if (runtime := plan.runtime_start) is not None and runtime.digest is not None:
        require_digest(node, runtime.program, {runtime.digest})


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Keep the backup: it costs one directory entry and is the evidence of what ran before."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Check again after an interruption; the files may have changed."""
    return False
