"""What a rollout must come to once nothing disturbs it any more: an end, or a status that says what it waits for."""

from collections.abc import Iterator

from nodeupgrade.api.json import Json
from tests.model.adapter import is_abandoned, slots
from tests.model.state import State

WAITS = frozenset({"Stalled", "Paused", "AwaitingApproval", "WaitingForWindow", "Pending", "Planned"})
"""Phases that say what is waited for."""


def silent(state: State) -> Iterator[str]:
    """Yield what is wrong about a state in which nothing happens any more."""
    active = [upgrade for upgrade in state.all("nodeupgrades") if not is_over(upgrade)]
    queued = [upgrade for upgrade in active if phase_of(upgrade) == "Queued"]
    for upgrade in active:
        name, phase = upgrade["metadata"]["name"], phase_of(upgrade)
        if phase == "Queued":
            if len(queued) == len(active):
                yield f"{name} is queued, and no rollout is ahead of it: {reason_of(upgrade)}"
        elif phase not in WAITS and not holds(upgrade, "Stalled") and not holds(upgrade, "Impeded"):
            yield f"{name} is {phase or 'not looked at'}, and nothing happens any more"


def is_over(upgrade: Json) -> bool:
    """Report whether a rollout has ended, and holds no slot."""
    ended = "completedAt" in (upgrade.get("status") or {})
    return (ended and not slots(upgrade)) or is_abandoned(upgrade)


def phase_of(upgrade: Json) -> str:
    """Return the phase in the status."""
    return str((upgrade.get("status") or {}).get("phase", ""))


def reason_of(upgrade: Json) -> str:
    """Return what the status says about its state."""
    conditions = (upgrade.get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each["type"] == "Reconciling"), "")


def holds(upgrade: Json, kind: str) -> bool:
    """Report whether a condition is True."""
    conditions = (upgrade.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
