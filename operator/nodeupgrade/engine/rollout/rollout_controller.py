"""The controller of rollouts: frees slots, claims and admits nodes, and writes the status of a NodeUpgrade."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import EPOCH_MARK, Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import Admit, FreeSlot, NodeAction, Refuse, Wait, WriteStatus
from nodeupgrade.domain.rollout.conditions import of_internal_error
from nodeupgrade.domain.rollout.planner import plan
from nodeupgrade.domain.rollout.snapshot import FailureHistory, FleetSnapshot
from nodeupgrade.engine.rollout.actuator import Actuator, EventRecorder, stub
from nodeupgrade.engine.rollout.result import Result
from nodeupgrade.engine.rollout.snapshots import RolloutMemory, Snapshots
from nodeupgrade.engine.rollout.sweep import Sweep, remove_stale_agents
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import TASKS, UPGRADES, ConflictError, Event, NotFoundError, RejectedError, UnavailableError

TASKS_AT_ONCE = 32
"""Tasks of waiting nodes that are written at the same time: below what an API server gives to one client, so that it
has room for the nodes in flight.
"""

BEGIN_SECONDS, PATIENCE_SECONDS = 2.0, 15.0
"""For how long a plan begins such writes, the others being left to the next one; and how long each may take."""

_OF_THE_STATUS = (Admit, FreeSlot, Refuse, Wait)
"""Actions for a node that the status write of the same plan carries out, or that carry out nothing."""


@dataclass(slots=True)
class RolloutController:
    """Reconciles NodeUpgrades; may be stopped after any write and resumed by any other instance.

    It never touches a node: that is the business of the controller of nodes, once their slots are on record.

    Args:
        snapshots: What to plan with.
        recorder: Takes note of events.
        on_slots: Called with a NodeUpgrade and the nodes that hold its slots: as it was read, and as it was written.
    """

    snapshots: Snapshots
    recorder: EventRecorder
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
        applied, complete = await self._carry_out(memory, fleet, planned.actions)
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
        about = stub(UPGRADES, name, body["metadata"]["uid"])
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

    async def _carry_out(
        self, memory: RolloutMemory, fleet: FleetSnapshot, actions: tuple[NodeAction, ...]
    ) -> tuple[list[NodeAction], bool]:
        """Carry out a plan: what is for the rollout itself in order, and for waiting nodes at the same time.

        A write that is refused for one node affects no other, nor the status: an action for one node never depends on
        what the same plan decides for another. Return the actions that succeeded, and whether all did.
        """
        actuator = Actuator.of(self.snapshots, fleet, memory, self.recorder)
        writing = _Writing(memory, actuator, self.snapshots.kube, fleet.upgrade, self.on_slots)
        own = asyncio.ensure_future(writing.for_rollout([each for each in actions if _node_of(each) is None]))
        others = asyncio.ensure_future(writing.for_nodes([each for each in actions if _node_of(each) is not None]))
        try:
            await asyncio.wait({own, others})
        finally:
            own.cancel()
            others.cancel()
            await asyncio.gather(own, others, return_exceptions=True)
        return writing.applied, own.result() and others.result()


@dataclass(slots=True)
class _Writing:
    """The writes of one plan."""

    memory: RolloutMemory
    actuator: Actuator
    kube: TypedKube
    upgrade: Upgrade
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None]
    applied: list[NodeAction] = field(default_factory=list)  # the actions that succeeded
    _permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TASKS_AT_ONCE))
    _unanswered: set[type[NodeAction]] = field(default_factory=set)

    async def for_rollout(self, actions: Iterable[NodeAction]) -> bool:
        """Carry out actions in order; return whether all succeeded."""
        for action in actions:
            if isinstance(action, WriteStatus):
                self._status_changes()
            try:
                done = await self.actuator.carry_out(action)
            except (ConflictError, NotFoundError):
                return False
            finally:
                if isinstance(action, WriteStatus):
                    self._status_changes()
            if done is None:
                return False
            self.applied.append(done)
            if isinstance(done, WriteStatus):
                self.on_slots(self.upgrade, done.status.in_flight)
        return True

    async def for_nodes(self, actions: Iterable[NodeAction]) -> bool:
        """Carry out actions for nodes, those of one node in order; return whether all succeeded."""
        by_node = dict[NodeName | None, list[NodeAction]]()
        for action in actions:
            by_node.setdefault(_node_of(action), []).append(action)
        until = asyncio.get_running_loop().time() + BEGIN_SECONDS
        writes = [asyncio.ensure_future(self._for_node(each, until)) for each in by_node.values()]
        try:
            return all(await asyncio.gather(*writes))
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _for_node(self, actions: Iterable[NodeAction], until: float) -> bool:
        for action in actions:
            async with self._permits:
                if type(action) in self._unanswered or asyncio.get_running_loop().time() > until:
                    return False
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        done = await self.actuator.carry_out(action)
                except (RejectedError, UnavailableError, TimeoutError) as error:
                    self._unanswered |= set() if isinstance(error, RejectedError) else {type(action)}
                    problem = str(error) or f"the API server has not answered for {PATIENCE_SECONDS:.0f} s"
                    self.memory.failures = self.memory.failures.failed(action, problem, self.kube.utcnow())
                    return False
            if done is None:
                return False
            self.applied.append(done)
        return True

    def _status_changes(self) -> None:
        """Let nothing count as recent that was read while the status is written, or before."""
        self.memory.status_writes, self.memory.recent = self.memory.status_writes + 1, None


def _node_of(action: NodeAction) -> NodeName | None:
    """Return the node that an action writes for; None if it writes for the NodeUpgrade, or nothing."""
    return None if isinstance(action, _OF_THE_STATUS) else getattr(action, "node", None)


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
