"""The reconcile loop of one rollout: gather, plan, apply. What is kept in memory only saves work."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from nodeupgrade.api.json import to_json
from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.catalogue import read_upgrade
from nodeupgrade.domain.rollout.actions import FreeSlot, NodeAction, Wait, WriteStatus
from nodeupgrade.domain.rollout.conditions import of_internal_error
from nodeupgrade.domain.rollout.membership import in_flight
from nodeupgrade.domain.rollout.planner import Notes, advance_in_flight, plan, unread, unread_in_flight
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.election import Term, require_term, take_over
from nodeupgrade.engine.rollout.action_events import stub
from nodeupgrade.engine.rollout.actuator import Actuator
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.failure_history import FailureHistory
from nodeupgrade.engine.rollout.following import following_on
from nodeupgrade.engine.rollout.gathering import READS_AT_ONCE, gather, look_at
from nodeupgrade.engine.rollout.lanes import Follow, Lanes, WriteBudget, nothing
from nodeupgrade.engine.rollout.passes import Cadence, PassOptions, PassResult, Stopwatch
from nodeupgrade.engine.rollout.reader import FleetSource, LiveFleet
from nodeupgrade.engine.rollout.status_pace import may_wait
from nodeupgrade.engine.rollout.sweep import Sweep, remove_stale_agents
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.health import HealthSource, NoHealth
from nodeupgrade.ports.kube import UPGRADES, ConflictError, Event, NotFoundError


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a pass carries out: its actions, what follows on them, and the nodes whose pods are to be read for that."""

    actions: tuple[NodeAction, ...] = ()
    follow: Follow = nothing
    looking: tuple[NodeName, ...] = ()


@dataclass(slots=True)
class _Rollout:
    """What is kept in memory of one NodeUpgrade between its passes; a new operator does without."""

    lanes: Lanes
    cadence: Cadence
    memory: FailureHistory = field(default_factory=FailureHistory)
    notes: Notes = field(default_factory=Notes)
    reported_at: datetime | None = None


class Rollouts:
    """Reconciles NodeUpgrades, one pass at a time; may be stopped after any write and resumed by any other instance.

    Args:
        kube: The API server.
        agents: Settings of agent pods.
        operator_node: The node that the operator runs on, if known.
        fleet: Source of Nodes, tasks, agent pods and other NodeUpgrades; live lists by default.
        pace: How passes save work; by default they do not.
        on_late: Called with the name of a NodeUpgrade when a write is done for which its pass did not wait.
        health: Source of the readings of health checks; by default nothing is ever known of them.
        term: This leader's term; None if nobody else can write.
    """

    def __init__(
        self,
        kube: TypedKube,
        agents: AgentPodSettings,
        *,
        operator_node: str | None = None,
        fleet: FleetSource | None = None,
        pace: PassOptions | None = None,
        on_late: Callable[[str], None] = lambda _name: None,
        health: HealthSource | None = None,
        term: Term | None = None,
    ) -> None:
        self._kube = kube
        self._agents = agents
        self._fleet = fleet or LiveFleet(kube, agents.namespace)
        self._sweep = Sweep(kube, self._fleet, agents.namespace)
        self._operator_node = None if operator_node is None else NodeName(operator_node)
        self._pace, self._on_late = pace or PassOptions(), on_late
        self._budget, self._looks = WriteBudget(), asyncio.Semaphore(READS_AT_ONCE)
        self._rollouts: dict[str, _Rollout] = {}
        self._health = health or NoHealth()
        self._term = term

    async def unfinished(self) -> tuple[str, ...]:
        """Return the names of all NodeUpgrades that may need work."""
        known = await self._fleet.upgrades_listed()
        return tuple(name for name, each in known.items() if _needs_work(each.upgrade))

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Remove orphaned cordons, entries of the readiness guard that no run needs, and agents that serve no run."""
        removed = await self._sweep.make()
        await self._sweep.lower_guards()
        await remove_stale_agents(self._kube, self._agents.namespace, self._kube.utcnow())
        return removed

    async def close(self) -> None:
        """Break off the writes that are in progress, and forget what is kept in memory.

        Whatever reached the API server counts.
        """
        rollouts, self._rollouts = self._rollouts, {}
        for rollout in rollouts.values():
            await rollout.lanes.close()

    async def reconcile(self, name: str) -> PassResult:
        """Run one pass for one NodeUpgrade; if it does not exist, there is nothing to do."""
        try:
            upgrade = read_upgrade(await self._kube.get(UPGRADES, name))
        except NotFoundError:
            if (gone := self._rollouts.pop(name, None)) is not None:
                await gone.lanes.close()
            self._health.forget(name)
            return PassResult(over=True)
        rollout, spent = self._rollout(name), Stopwatch()
        left = rollout.cadence.left(upgrade)
        fleet = None if left and not upgrade.status.in_flight else await self._read(rollout, upgrade)
        if fleet is None:
            planned = _Planned()
        elif await self._taken_over(fleet):
            return PassResult(conflicted=True, in_flight=bool(upgrade.status.in_flight), upgrade=upgrade)
        elif left:
            planned = await self._advance(rollout, fleet, spent)
        else:
            planned = await self._plan(rollout, fleet, spent)
        actuator = Actuator(self._kube, self._agents, upgrade, rollout.lanes, "" if fleet is None else fleet.epoch)
        try:
            complete = await actuator.apply(planned.actions, planned.follow, planned.looking)
        except (ConflictError, NotFoundError):
            complete = False
            rollout.cadence.hurry()
        finally:
            rollout.memory.learn(actuator.applied, actuator.refused, self._kube.utcnow())
        actions = (*planned.actions, *actuator.followed)
        return PassResult(
            actions=actions,
            conflicted=not complete,
            in_flight=bool(upgrade.status.in_flight),
            over=not (left or actions) and (upgrade.finished or upgrade.deleting),
            applied=tuple(actuator.applied),
            upgrade=upgrade,
            whole_in=rollout.cadence.left(upgrade) if left else None,
            cost=spent.seconds,
            wait_over_in=_wait_over_in(actions, self._kube.utcnow()),
        )

    async def start_anew(self, name: str, problem: str) -> None:
        """Forget what is kept in memory of a rollout, as a restart would, and tell people why.

        Raises:
            NodeUpgradeError: The API server does not let it be told.
        """
        if (gone := self._rollouts.pop(name, None)) is not None:
            # Whatever was not answered may still take effect: unlike after a restart, no new term voids it.
            doubtful = gone.lanes.unsettled | gone.lanes.busy
            await gone.lanes.close()
            self._rollout(name).lanes.doubt(doubtful)
        body, now = await self._kube.get(UPGRADES, name), self._kube.utcnow().replace(microsecond=0)
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
        await self._kube.emit_event(
            Event(regarding=about, reason=Reason.INTERNAL_ERROR, message=told.message, warning=True)
        )
        status = {**status, "conditions": [*known, to_json(told)]}
        version = body["metadata"]["resourceVersion"]
        await self._kube.replace_status(UPGRADES, name, status, resource_version=version)

    async def gather(self, name: str) -> FleetSnapshot:
        """Read everything the plan depends on, pods included.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
        """
        upgrade = read_upgrade(await self._kube.get(UPGRADES, name))
        fleet, _ = await self._with_pods(await self._read(self._rollout(name), upgrade), unread)
        return fleet

    async def _taken_over(self, fleet: FleetSnapshot) -> bool:
        """Mark the rollout as this leader's before its first write to it; return whether anything had to be marked.

        Raises:
            NotLeadingError: Another leader has marked it later.
        """
        if self._term is None:
            return False
        require_term(fleet, self._term)
        if fleet.epoch == fleet.upgrade.epoch or not (_needs_work(fleet.upgrade) or in_flight(fleet)):
            return False
        with contextlib.suppress(ConflictError, NotFoundError):
            await take_over(self._kube, fleet)
        return True

    async def _plan(self, rollout: _Rollout, fleet: FleetSnapshot, spent: Stopwatch) -> _Planned:
        """Plan the rollout as a whole."""
        upgrade, looking = fleet.upgrade, self._looking(fleet)

        def missing(fleet: FleetSnapshot, now: datetime) -> tuple[NodeName, ...]:
            with spent:
                return unread(fleet, now, rollout.notes, looking)

        fleet, now = await self._with_pods(fleet, missing)
        with spent:
            actions = plan(fleet, now, rollout.notes)
        rollout.cadence.planned(upgrade, actions, spent.seconds)
        interval, before = self._pace.status_interval, rollout.reported_at
        if before is not None and now - before < interval and may_wait(upgrade.status, actions):
            actions = tuple(action for action in actions if not isinstance(action, WriteStatus))
        if any(isinstance(action, WriteStatus) for action in actions):
            rollout.reported_at = now
        return self._planned(rollout, fleet, actions, looking)

    async def _advance(self, rollout: _Rollout, fleet: FleetSnapshot, spent: Stopwatch) -> _Planned:
        """Plan what comes next for the nodes in flight."""
        looking = self._looking(fleet)
        if not self._pace.follow:
            fleet, _ = await self._with_pods(fleet, unread_in_flight)
        with spent:
            actions = advance_in_flight(fleet, self._kube.utcnow())
        own = tuple(action for action in actions if not isinstance(action, FreeSlot))
        if len(own) < len(actions):
            rollout.cadence.slot_waits()
        return self._planned(rollout, fleet, own, looking)

    def _looking(self, fleet: FleetSnapshot) -> tuple[NodeName, ...]:
        """Return the nodes in flight whose pods are read while others go on."""
        return unread_in_flight(fleet, self._kube.utcnow()) if self._pace.follow else ()

    def _planned(
        self, rollout: _Rollout, fleet: FleetSnapshot, actions: tuple[NodeAction, ...], looking: tuple[NodeName, ...]
    ) -> _Planned:
        """Leave out what is for busy nodes."""
        busy = rollout.lanes.busy | fleet.busy
        free = tuple(name for name in looking if name not in busy)
        follow = following_on(fleet, self._fleet, self._kube, lanes=rollout.lanes, pace=self._pace, limit=self._looks)
        return _Planned(rollout.lanes.free(actions, fleet.busy), follow, free)

    async def _read(self, rollout: _Rollout, upgrade: Upgrade) -> FleetSnapshot:
        """Read what a plan depends on, except pods."""
        # Both before anything is read.
        epoch, unsettled = "" if self._term is None else self._term.epoch, rollout.lanes.unsettled
        fleet = await gather(
            self._kube,
            upgrade,
            self._fleet,
            namespace=self._agents.namespace,
            operator_node=self._operator_node,
            setbacks=rollout.memory.setbacks(self._kube.utcnow()),
            agents_lost=rollout.memory.agents_lost,
            busy=rollout.lanes.busy,
            health=self._health.readings(upgrade),
            allowed=self._agents.allowed,
        )
        return replace(fleet, epoch=epoch, unsettled=unsettled)

    async def _with_pods(
        self, fleet: FleetSnapshot, missing: Callable[[FleetSnapshot, datetime], tuple[NodeName, ...]]
    ) -> tuple[FleetSnapshot, datetime]:
        """Look at the nodes whose pods are ``missing``, until none is; return also the time of that."""
        while nodes := missing(fleet, now := self._kube.utcnow()):
            fleet = await look_at(self._kube, fleet, nodes, self._looks)
        return fleet, now

    def _rollout(self, name: str) -> _Rollout:
        if name not in self._rollouts:
            lanes = Lanes(
                self._budget, name, patience=self._pace.patience, on_late=functools.partial(self._on_late, name)
            )
            self._rollouts[name] = _Rollout(lanes, Cadence(self._pace.rest, self._pace.clock))
        return self._rollouts[name]


def _wait_over_in(actions: Iterable[NodeAction], now: datetime) -> float | None:
    ends = (action.until for action in actions if isinstance(action, Wait) and action.until is not None)
    return max(0.0, (first - now).total_seconds()) if (first := min(ends, default=None)) is not None else None


def _needs_work(upgrade: Upgrade | None) -> bool:
    """Report whether a pass may have something to do; an unreadable NodeUpgrade counts, so that its pass reports it."""
    return upgrade is None or upgrade.active or upgrade.deleting or upgrade.retry_asked
