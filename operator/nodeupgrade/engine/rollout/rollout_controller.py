"""The controller of rollouts: frees slots, claims and admits nodes, and writes the status of a NodeUpgrade."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import EPOCH_MARK, Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import NodeAction, WriteStatus
from nodeupgrade.domain.rollout.conditions import of_internal_error
from nodeupgrade.domain.rollout.planner import plan
from nodeupgrade.domain.rollout.snapshot import FailureHistory, FleetSnapshot
from nodeupgrade.engine.rollout.actuator import Actuator, EventRecorder, carry_out_plan
from nodeupgrade.engine.rollout.result import Result
from nodeupgrade.engine.rollout.snapshots import RolloutMemory, Snapshots
from nodeupgrade.engine.rollout.sweep import Sweep, remove_stale_agents
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import TASKS, UPGRADES, ConflictError, Event, NotFoundError, RejectedError


@dataclass(slots=True)
class RolloutController:
    """Reconciles NodeUpgrades; may be stopped after any write and resumed by any other instance.

    It never touches a node: that is the business of the controller of nodes, once their slots are on record.
    """

    snapshots: Snapshots
    recorder: EventRecorder
    # called with a NodeUpgrade and the nodes that hold its slots: as it was read, and as it was written
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None] = lambda _upgrade, _nodes: None
    _sweep: Sweep = field(init=False)

    def __post_init__(self) -> None:
        own = self.snapshots
        self._sweep = Sweep(own.kube, own.source, own.agents.namespace)

    async def unfinished(self) -> tuple[str, ...]:
        """Return the names of all NodeUpgrades that may need work."""
        known = await self.snapshots.source.upgrades_listed()
        return tuple(name for name, each in known.items() if _needs_work(each.upgrade))

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Remove orphaned cordons, entries of the readiness guard that no run needs, and agents that serve no run."""
        own = self.snapshots
        removed = await self._sweep.make()
        await self._sweep.lower_guards()
        await remove_stale_agents(own.kube, own.agents.namespace, own.kube.utcnow())
        return removed

    async def reconcile(self, name: str) -> Result:
        """Plan a rollout once, and carry the plan out; if it does not exist, there is nothing to do.

        Raises:
            NotLeadingError: Another leader has taken over.
            RejectedError, UnavailableError: The NodeUpgrade cannot be read or written at the moment.
        """
        memory, kube = self.snapshots.memory(name), self.snapshots.kube
        try:
            fleet = await self.snapshots.of_rollout(name)
        except NotFoundError:
            self.snapshots.forget(name)
            self.snapshots.health.forget(name)
            return Result(over=True)
        upgrade, flying = fleet.upgrade, frozenset(fleet.in_flight)
        memory.waiting = {node: action for node, action in memory.waiting.items() if node in flying}
        if await self._taken_over(memory, fleet):
            return Result(conflicted=True, upgrade=upgrade, in_flight=upgrade.status.in_flight)
        # Whatever becomes of the plan, they go on.
        self.on_slots(upgrade, upgrade.status.in_flight)
        began = time.thread_time()
        planned = plan(fleet, now := kube.utcnow())
        cost = time.thread_time() - began
        while planned.unread:
            fleet = await self.snapshots.with_pods(fleet, planned.unread)
            began = time.thread_time()
            planned = plan(fleet, now := kube.utcnow())
            cost += time.thread_time() - began
        actuator = Actuator(self.snapshots, fleet, memory, self.recorder)
        applied, complete = await carry_out_plan(actuator, planned.actions, self.on_slots)
        slots = next((each.status.in_flight for each in applied if isinstance(each, WriteStatus)), fleet.in_flight)
        return Result(
            actions=planned.actions,
            applied=tuple(applied),
            conflicted=not complete,
            over=not (planned.actions or slots) and (upgrade.finished or upgrade.deleting),
            upgrade=upgrade,
            in_flight=slots,
            cost=cost,
        ).waiting_at(now)

    async def crashed(self, name: str, problem: str) -> None:
        """Forget what failed lately for a rollout, as a restart would, and tell people what nobody has foreseen.

        Raises:
            NodeUpgradeError: The API server does not let it be told.
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
        version = body["metadata"]["resourceVersion"]
        await kube.replace_status(UPGRADES, name, status, resource_version=version)

    async def _taken_over(self, memory: RolloutMemory, fleet: FleetSnapshot) -> bool:
        """Mark the rollout as this leader's before its first write to it; return whether anything had to be marked."""
        if self.snapshots.term is None or fleet.epoch == fleet.upgrade.epoch:
            return False
        if not (_needs_work(fleet.upgrade) or fleet.in_flight):
            return False
        memory.recent = None
        with contextlib.suppress(ConflictError, NotFoundError):
            await take_over(self.snapshots.kube, fleet)
        return True


def _needs_work(upgrade: Upgrade | None) -> bool:
    """Report whether there may be something to do; an unreadable NodeUpgrade counts, so that this is reported."""
    return upgrade is None or upgrade.active or upgrade.deleting or upgrade.retry_asked


# The first thing that a new leader writes: marks that make every write void that its predecessor still has on the way.
#
# A write names the resourceVersion that it relies on, so it is void once the object has changed. A predecessor that was
# paused in the middle of a write may send it any time later; objects that nobody has written since would accept it. So
# a new leader first writes its epoch into the tasks of all nodes in flight, which a late write could start, and then
# into the NodeUpgrade, which a late write could admit nodes with. Only then does it plan. Whoever meets the mark of a
# later term knows that its own is over.


async def take_over(kube: TypedKube, fleet: FleetSnapshot) -> None:
    """Mark a rollout and its nodes in flight. If it is interrupted, all of it has to be done again.

    The NodeUpgrade comes last and on condition that it is the one from which the nodes in flight were read: no slot
    can have been taken since.

    Raises:
        ConflictError, NotFoundError: The NodeUpgrade has changed or is gone.
        RejectedError, UnavailableError: The NodeUpgrade cannot be written at the moment.
    """
    mark: Json = {"metadata": {"annotations": {EPOCH_MARK: fleet.epoch}}}
    for name in fleet.in_flight:
        if fleet.own_task(name) is not None:
            # A task that cannot be marked must not stop the other nodes; its slot is not freed before it is marked.
            with contextlib.suppress(NotFoundError, RejectedError):
                await kube.merge(TASKS, name, mark)
    await kube.merge(UPGRADES, fleet.upgrade.name, mark, resource_version=fleet.upgrade.resource_version)
