"""How decisions are told in stories."""

from nodeupgrade.domain.rollout.actions import Claim, NodeAction, Reopen


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
