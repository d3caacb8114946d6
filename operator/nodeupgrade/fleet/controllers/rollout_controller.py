"""The controller of rollouts: frees slots, claims and admits nodes, and writes the status of a NodeUpgrade."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nodeupgrade.api.json import to_json
from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import UPGRADES, ConflictError, Event, NotFoundError
from nodeupgrade.fleet.actions import WriteStatus
from nodeupgrade.fleet.controllers.actuator import Actuator
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder
from nodeupgrade.fleet.controllers.plan_writer import carry_out_plan
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from nodeupgrade.fleet.controllers.snapshots import Snapshots
from nodeupgrade.fleet.decide.conditions import of_internal_error
from nodeupgrade.fleet.decide.membership import without_objecting_pods
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.setbacks import FailureHistory
from nodeupgrade.fleet.snapshot import FleetSnapshot

MOST_READ = 128
"""Nodes whose pods one plan reads at most; the next one goes on with others."""


@dataclass(slots=True)
class RolloutController:
    """Reconciles NodeUpgrades; may be stopped after any write and resumed by any other instance.

    It never touches a node: that is the business of the controller of nodes, once their slots are on record.
    """

    snapshots: Snapshots
    recorder: EventRecorder
    # called with a NodeUpgrade and the nodes that hold its slots: as it was read, and as it was written
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None]
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def unfinished(self) -> tuple[str, ...]:
        """Return the names of all NodeUpgrades that may need work."""
        known, tasks = await self.snapshots.source.list_upgrades(), await self.snapshots.source.get_tasks()
        busy = {task.spec.upgrade_ref.uid for task in tasks.values() if task.open}  # also of one that has ended
        return tuple(name for name, each in known.items() if _needs_work(each.upgrade) or each.uid in busy)

    async def reconcile(self, name: str) -> Result:
        """Plan a rollout once, and carry the plan out; if it does not exist, there is nothing to do.

        Raises:
            NotLeadingError: Another leader has taken over.
            RejectedError, UnavailableError: The NodeUpgrade cannot be read or written at the moment.
        """
        # One at a time if they share a budget: each must see the slots of the others.
        async with contextlib.nullcontext() if self.snapshots.cluster_budget.unlimited else self._alone:
            return await self._reconcile(name)

    async def _reconcile(self, name: str) -> Result:
        memory, kube = self.snapshots.memory(name), self.snapshots.kube
        try:
            fleet = await self.snapshots.of_rollout(name)
        except NotFoundError:
            self.snapshots.forget(name)
            self.snapshots.health.forget(name)
            return Result(over=True)
        upgrade, flying = fleet.upgrade, fleet.slots
        memory.waiting = {node: action for node, action in memory.waiting.items() if node in flying}
        fleet = replace(fleet, waiting=dict(memory.waiting))
        if await self._taken_over(memory, fleet):
            return Result(conflicted=True, upgrade=upgrade, in_flight=upgrade.status.flying)
        # Whatever becomes of the plan, they go on.
        self.on_slots(upgrade, upgrade.status.flying)
        cost, now, read = 0.0, kube.utcnow(), 0
        seen: RolloutView | None = None
        while True:
            began = time.thread_time()
            planned = plan(fleet, now, seen)
            cost += time.thread_time() - began
            if (seen := planned.rollout) is None or not (due := planned.unread[: MOST_READ - read]):
                break
            fleet = await self.snapshots.with_pods(without_objecting_pods(fleet, seen), due, whole=False)
            read += len(due)
        if seen is not None:
            memory.remember_objections(seen, now, reading_on=bool(planned.unread))
        actuator = Actuator(self.snapshots, fleet, memory, self.recorder)
        applied, complete = await carry_out_plan(actuator, planned.actions, self.on_slots)
        slots = next((each.status.flying for each in applied if isinstance(each, WriteStatus)), tuple(fleet.slots))
        result = Result(
            actions=planned.actions,
            applied=tuple(applied),
            conflicted=not complete,
            over=not (planned.actions or slots) and (upgrade.finished or upgrade.deleting),
            upgrade=upgrade,
            in_flight=slots,
            cost=cost,
        ).waiting_at(now)
        return replace(result, wait_over_in=0.0) if planned.unread else result

    async def crashed(self, name: str, problem: str) -> None:
        """Forget the recent failures of a rollout, as a restart would, and report an unexpected error.

        Raises:
            NodeUpgradeError: The error cannot be reported.
        """
        memory, kube = self.snapshots.memory(name), self.snapshots.kube
        memory.failures, memory.recent = FailureHistory(), None
        body, now = await kube.get(UPGRADES, name), kube.utcnow().replace(microsecond=0)
        told = of_internal_error(problem, body["metadata"].get("generation", 0), now)
        status = body.get("status") or {}
        known = [
            {**each, "message": shorten(each.get("message", ""), CONDITION_MESSAGE_LENGTH)}
            for each in status.get("conditions") or []
            if each["type"] != told.type
        ]
        if any(each["message"] == told.message for each in status.get("conditions") or []):
            return
        about = UPGRADES.as_regarding(name, body["metadata"]["uid"])
        self.recorder.record([Event(regarding=about, reason=Reason.INTERNAL_ERROR, message=told.message, warning=True)])
        status = {**status, "conditions": [*known, to_json(told)]}
        await kube.replace_status(UPGRADES, name, status, resource_version=body["metadata"]["resourceVersion"])

    async def _taken_over(self, memory: RolloutMemory, fleet: FleetSnapshot) -> bool:
        """Mark the rollout as this leader's before its first write to it; return whether it had to be marked.

        A write names the resourceVersion that it relies on. A former leader that was paused in the middle of one may
        send it any time later, and objects that nobody has written since would accept it. From now on that is void for
        a status, which frees and takes slots; tasks follow before a slot is freed (``flight.advance``).
        """
        upgrade = fleet.upgrade
        if self.snapshots.term is None or fleet.epoch == upgrade.status.leader:
            return False
        if not (_needs_work(upgrade) or fleet.slots):
            return False
        memory.recent, status = None, to_json(replace(upgrade.status, leader=fleet.epoch))
        with contextlib.suppress(ConflictError, NotFoundError):
            version = upgrade.resource_version
            await self.snapshots.kube.replace_status(UPGRADES, upgrade.name, status, resource_version=version)
        return True


def _needs_work(upgrade: Upgrade | None) -> bool:
    """Report whether there may be something to do; an unreadable NodeUpgrade counts, so that this is reported."""
    if upgrade is None or upgrade.active or upgrade.deleting or upgrade.retry_requested:
        return True
    return upgrade.status.observed_generation != upgrade.generation
