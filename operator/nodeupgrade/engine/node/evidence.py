"""Evidence that what ran still runs: as planned, replaced as planned, and shown by the runtime."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.hazards import named
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.verification import (
    GO_ON,
    Difference,
    Obstacle,
    affected,
    appeared,
    unplanned,
    unshown,
)
from nodeupgrade.engine.node import start_preconditions
from nodeupgrade.engine.node.facts.own_places import STATE_DIRECTORY
from nodeupgrade.engine.node.node import Node

LOOK_SECONDS = 0.25


def compare(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, tuple[Difference, ...]]:
    """Return the present inventory, and how it differs from the plan's baseline, perhaps also in sandboxes' addresses.

    Process and start time identify an instance, so details are requested for each container only if something
    differs: the exit code shows whether a container completed meanwhile.
    """
    now = node.runtime.inventory(full=False, addresses=addresses)
    if not (changes := unplanned(plan, now)):
        return now, changes
    now = node.runtime.inventory(full=True)
    return now, unplanned(plan, now)


def require_planned(node: Node, plan: RunPlan) -> None:
    """Require exactly the planned containers to run.

    Raises:
        StepFailed: something changed since planning.
    """
    now, lost = compare(node, plan)
    if changes := (*lost, *appeared(plan.baseline, now, planned=plan.containers)):
        raise StepFailed(
            f"{len(changes)} containers changed since planning, first: {changes[0]}",
            reason=Reason.INVENTORY_CHANGED,
            changed=affected(each.label for each in lost),
        )


# Wait for static pods that the new kubelet is to replace, and count what it has replaced.

LEAVE_SECONDS = 60.0
"""How long a kubelet may take to begin; a pod that runs on until then is kept, since its UID has not changed."""
RETURN_SECONDS = 300.0
"""How long pods may take to end, with their grace period, and to run again."""


def are_back(node: Node, plan: RunPlan, *, since: AwakeTime) -> bool:
    """Report whether every container of these pods runs again, or was kept, since the new kubelet was first watched.

    Raises:
        StepFailed: they do not run again in time.
    """
    if not (wanted := plan.to_recreate()):
        return True
    may_complete = {c.id for c in plan.containers if c.may_complete}
    try:
        now = tuple(node.runtime.inventory(full=False).running())
    except Transient:
        return False
    kept = {c.id for c in now}
    fresh = {c.label for c in now} - {c.label for c in wanted if c.id in kept}
    waited = node.clock.awake() - since
    away = [
        c.label
        for c in wanted
        if c.id not in may_complete and c.label not in fresh and (c.id not in kept or waited < LEAVE_SECONDS)
    ]
    if away and waited > RETURN_SECONDS:
        raise StepFailed(
            f"the new kubelet was to replace static pods, and after {waited:.0f} s {away[0]} does not run again",
            reason=Reason.VERIFICATION_FAILED,
        )
    return not away


def replaced(plan: RunPlan, now: Inventory) -> tuple[str, ...]:
    """Return the labels of the containers that were replaced."""
    kept = {c.id for c in now.running()}
    return tuple(c.label for c in plan.to_recreate() if c.id not in kept)


# Check that the runtime shows everything that still runs, before hashes or a kubelet depend on it.

PATIENCE_SECONDS = 10.0
"""How long to wait for a runtime that was just restarted before it counts as not answering."""


def lack(node: Node, plan: RunPlan, *, rebooted: bool) -> Obstacle | None:
    """Return why the runtime is not fit for the old kubelet; ``None`` if it is.

    Where a kubelet runs already, nothing is required; after a reboot, which ended everything, only an answer.
    """
    try:
        if node.services.status(plan.swap.unit).main_pid:
            return None
        now = _inventory(node, plan)
        hidden = () if rebooted else unshown(plan, now, node.runtime.alive)
    except Transient:
        return Obstacle(reason=Reason.RUNTIME_DID_NOT_ANSWER, why="the runtime does not answer")
    except StepFailed as error:
        return Obstacle(reason=error.reason, why=str(error))
    if not hidden:
        return None
    anyway = f"touch {STATE_DIRECTORY}/runs/{plan.run_id}/{GO_ON}"
    return Obstacle(
        reason=Reason.RUNTIME_LOST_PODS,
        why=f"the runtime does not show {len(hidden)} of the instances that still run: {named(hidden, 3)} "
        f"(to start the kubelet all the same, which makes them a second time: {anyway})",
    )


def require_shown(node: Node, plan: RunPlan) -> None:
    """Check again right before a kubelet starts: the runtime may have been restarted since the last check.

    Raises:
        StepFailed: the runtime does not show everything that still runs.
        Transient: it does not answer.
    """
    if hidden := unshown(plan, node.runtime.inventory(full=False), node.runtime.alive):
        raise StepFailed(
            f"the runtime does not show {len(hidden)} of the instances that still run, such as {hidden[0]}",
            reason=Reason.RUNTIME_LOST_PODS,
        )


def _inventory(node: Node, plan: RunPlan) -> Inventory:
    try:
        return node.runtime.inventory(full=False)
    except Transient:
        start_preconditions.require_startable(node, plan)
        node.runtime.wait_until_answering(PATIENCE_SECONDS)
        return node.runtime.inventory(full=False)
