"""Restart the runtime, which serves annotations from memory, so that it reads the rewritten hashes."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.failpoints import RUNTIME_RESTARTED
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.verification import hash_differences
from nodeupgrade.engine.node import images_kept, start_preconditions
from nodeupgrade.engine.node.node import Node


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: ``undo`` needs nothing."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Restart and wait until the CRI *answers*; an active unit does not mean that it does.

    Fail without a restart if the runtime might come back with another configuration: the running one knows all
    containers.
    """
    if not plan.rewrites():
        return
    start_preconditions.require_runtime_as_planned(node, plan)
    node.services.restart(plan.runtime_unit)
    node.failpoint(RUNTIME_RESTARTED)
    try:
        node.runtime.wait_until_answering(min(plan.limits.runtime_restart, node.seconds))
    except Transient as error:
        raise StepFailed(str(error), reason=Reason.RUNTIME_DID_NOT_ANSWER) from error
    if taken := images_kept.reinstated(node, plan):
        raise StepFailed(
            f"the restarted runtime took {len(taken)} containers for ended although they run, first: {taken[0]}; "
            "what it had written down about them was put back",
            reason=Reason.VERIFICATION_FAILED,
        )


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Do nothing: undoing REWRITE_HASHES comes next, and restarts the runtime after restoring the hashes."""


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether the runtime serves the planned hashes."""
    try:
        return not hash_differences(plan.containers, node.runtime.inventory(full=False))
    except Transient:
        return False
