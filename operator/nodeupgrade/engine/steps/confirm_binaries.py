"""Before anything is touched: both kubelet programs are what the plan says, and the old one has a backup.

Reading them whole takes longer than the rest of the kubelet's downtime, so it happens while the kubelet runs.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import Node
from nodeupgrade.engine.steps.contents import require_digest


def prepare(node: Node, plan: RunPlan) -> dict[str, Json]:
    """Keep by what it shows, later and at no cost, that the programs are still those that were read."""
    return {path: node.files.stamp(PurePosixPath(path)) for path in (plan.swap.path, plan.swap.staged)}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Link the old program under its backup name, and check both digests.

    It is the backup that is read: should another program take the old one's place at any time, the backup is not it.
    What cannot be exchanged, since it is a symbolic link by now, is refused here and not with the kubelet down.
    """
    swap = plan.swap
    node.files.tidy(PurePosixPath(swap.path))
    node.files.replace(PurePosixPath(swap.path), PurePosixPath(swap.backup))
    require_digest(node, swap.backup, {swap.before})
    require_digest(node, swap.staged, {swap.after})


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Keep the backup: it costs one directory entry and is the evidence of what ran before."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Check again after an interruption; the files may have changed."""
    return False
