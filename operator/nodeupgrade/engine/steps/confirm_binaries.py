"""Before anything is touched: both kubelet programs are what the plan says, and the old one has a backup.

Reading them whole takes longer than the rest of the kubelet's downtime, so it happens while the kubelet runs.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.domain.codec import Json
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.engine.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, Json]:
    """Nothing has to be remembered: the backup is only an additional name of the old program."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Check both digests and link the old program under its backup name."""
    swap = plan.swap
    for path, promised in ((swap.path, swap.before), (swap.staged, swap.after)):
        found = node.files.digest(PurePosixPath(path))
        if found != promised:
            raise StepFailed(
                f"{path} has SHA-256 {found}, planned {promised}: it was changed after planning",
                reason=Reason.DIGEST_MISMATCH,
            )
    node.files.replace(PurePosixPath(swap.path), PurePosixPath(swap.backup))


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> None:
    """Keep the backup: it costs one directory entry and is the evidence of what ran before."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, Json]) -> bool:
    """Check again after an interruption; the files may have changed."""
    return False
