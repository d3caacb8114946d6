"""The plan that a run follows: as it was written, and amended by what the journal says had changed at the stop."""

from nodeupgrade.api.json import MalformedFileError, from_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.journal.journal import Journal
from nodeupgrade.node.plan.amendment import Amendment, amended
from nodeupgrade.node.plan.plan import RunPlan

AMENDMENT = "amendment"


def amendment_in(journal: Journal) -> Amendment | None:
    """Return what changed until the kubelet's stop; ``None`` if nothing did, or if that has not been looked at.

    Raises:
        Inconsistent: another version of this program wrote it.
    """
    found = (journal.payload(Step.CONFIRM_INVENTORY) or {}).get(AMENDMENT)
    if found is None:
        return None
    try:
        return from_json(Amendment, found, strict=True)
    except MalformedFileError as error:
        raise Inconsistent(f"the amendment of the plan cannot be read: {error}") from error


def ended_before(plan: RunPlan, journal: Journal) -> tuple[str, ...]:
    """Return the containers of the written plan that ended before the kubelet was stopped, without the agent's own.

    Raises as amendment_in().
    """
    amendment = amendment_in(journal)
    gone = frozenset() if amendment is None else frozenset(amendment.ended)
    return tuple(dict.fromkeys(c.label for c in plan.containers if c.id in gone and not c.expendable))


def plan_in_effect(plan: RunPlan, journal: Journal) -> RunPlan:
    """Return the plan as the journal amends it; raises as amendment_in()."""
    amendment = amendment_in(journal)
    return plan if amendment is None else amended(plan, amendment)
