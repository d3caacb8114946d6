"""How decisions are told in stories."""

from nodeupgrade.fleet.actions import Claim, NodeAction, Reopen
from tests.doubles.kube_fleet import Part

PARTS = {
    "succeeds": Part.SUCCEED,
    "flaps": Part.FLAP,
    "refuses for now": Part.REFUSE_FOR_NOW,
    "refuses": Part.REFUSE,
    "rolls back": Part.ROLL_BACK,
    "cannot roll back": Part.FAIL_TO_ROLL_BACK,
    "restarts a container and does not say so": Part.LIE,
    "cannot pull the agent's image": Part.CANNOT_PULL,
    "hangs": Part.HANG,
    "dies": Part.DIE,
    "runs an agent that reports nothing": Part.SILENT,
}


def told(action: NodeAction) -> str:
    """Tell one decision."""
    words = f"{type(action).__name__} {getattr(action, 'node', '')}".strip()
    return f"{words}: {action.reason} – {action.message}"


def summed_up(claims: list[NodeAction]) -> list[str]:
    """Tell of nodes that are claimed or reopened together in one line for each wave."""
    groups: dict[str, list[str]] = {}
    for action in claims:
        if isinstance(action, Claim | Reopen):
            what = f"{type(action).__name__}: {action.reason} – {action.message.replace(f'node {action.node} ', '')}"
            groups.setdefault(what, []).append(action.node)
    return [what.replace(":", f" {', '.join(sorted(nodes))}:", 1) for what, nodes in groups.items()]
