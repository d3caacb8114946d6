"""Confirm that every program and file is as planned, and back up the old ones, before anything is touched.

Reading the programs takes longer than the rest of the kubelet's downtime, so it happens while the kubelet runs.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import exchange
from nodeupgrade.engine.node.exchange import require_digest
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.start_preconditions import require_files_as_planned


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the stamps of the programs, which later show cheaply that they are unchanged."""
    runtime = () if plan.runtime_start is None else (plan.runtime_start.program,)
    return {path: node.files.stamp(PurePosixPath(path)) for path in (plan.swap.path, plan.swap.staged, *runtime)}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Link the old program under its backup name, and check the digests.

    The backup is read, not the old path, on which another program may appear at any time. A program that cannot be
    swapped, because it has become a symbolic link, is refused here, not with the kubelet down.
    """
    swap = plan.swap
    node.files.tidy(PurePosixPath(swap.path))
    node.files.replace(PurePosixPath(swap.path), PurePosixPath(swap.backup))
    require_digest(node, swap.backup, {swap.before})
    require_digest(node, swap.staged, {swap.after})
    exchange.keep(node, plan)
    require_files_as_planned(node, plan)
    if (runtime := plan.runtime_start) is not None and runtime.digest is not None:
        require_digest(node, runtime.program, {runtime.digest})


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Keep the backup: it costs one directory entry, and shows what ran before."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Check again after an interruption; the files may have changed."""
    return False
