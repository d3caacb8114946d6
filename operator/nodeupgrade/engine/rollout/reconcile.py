"""One rollout's loop: gather what the API shows, plan, apply. Only how often something failed is kept in memory."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.reading import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Wait, WriteStatus
from nodeupgrade.domain.rollout.inflight.retry import retry_asked
from nodeupgrade.domain.rollout.planner import plan, unread
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.actuator import Actuator
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.gathering import gather
from nodeupgrade.engine.rollout.memory import Memory
from nodeupgrade.engine.rollout.reader import FleetSource, LiveFleet
from nodeupgrade.engine.rollout.status_pace import may_wait
from nodeupgrade.engine.rollout.sweep import Sweep
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import UPGRADES, ConflictError, NotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass decided, and when it is worth looking again.

    Attributes:
        actions: the decisions, in the order in which they were applied.
        conflicted: whether somebody else wrote in between, so that it must be looked at again at once.
        in_flight: whether a node holds a slot, so that its task is worth watching.
        over: whether nothing is left to do until the object itself changes.
        applied: those of the decisions that took.
        upgrade: the NodeUpgrade as it was read; None if it is gone.
    """

    actions: tuple[NodeAction, ...] = ()
    conflicted: bool = False
    in_flight: bool = False
    over: bool = False
    applied: tuple[NodeAction, ...] = ()
    upgrade: Upgrade | None = None

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return any(not isinstance(action, Wait | Hold) for action in self.actions)


class Rollouts:
    """Drives NodeUpgrades, one pass at a time; safe to stop after any write and to start again anywhere.

    Args:
        kube: The API server.
        agents: What agent pods look like.
        operator_node: The node the control plane runs on.
        fleet: Where Nodes, tasks, agent pods and other NodeUpgrades are read; live lists by default.
        status_interval: How far writes of a status are apart that only move counters along.
    """

    def __init__(
        self,
        kube: TypedKube,
        agents: AgentPodSettings,
        *,
        operator_node: str | None = None,
        fleet: FleetSource | None = None,
        status_interval: timedelta = timedelta(0),
    ) -> None:
        self._kube = kube
        self._agents = agents
        self._fleet = fleet or LiveFleet(kube, agents.namespace)
        self._sweep = Sweep(kube, self._fleet, agents.namespace)
        self._operator_node = None if operator_node is None else NodeName(operator_node)
        self._status_interval = status_interval
        self._reported_at: dict[str, datetime] = {}
        self._memories: dict[str, Memory] = {}

    async def unfinished(self) -> tuple[str, ...]:
        """Name all NodeUpgrades that may need work."""
        known = await self._fleet.upgrades_listed()
        return tuple(name for name, each in known.items() if _needs_work(each.upgrade))

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Restore cordons that nobody answers for any more."""
        return await self._sweep.make()

    async def reconcile(self, name: str) -> Pass:
        """Make one pass over one NodeUpgrade; one that is gone is over."""
        try:
            fleet = await self.gather(name)
        except NotFoundError:
            self._reported_at.pop(name, None)
            self._memories.pop(name, None)
            return Pass(over=True)
        now, upgrade = self._kube.utcnow(), fleet.upgrade
        actions = plan(fleet, now)
        reported_at = self._reported_at.get(name, now - self._status_interval)
        if now - reported_at < self._status_interval and may_wait(upgrade.status, actions):
            actions = tuple(action for action in actions if not isinstance(action, WriteStatus))
        if any(isinstance(action, WriteStatus) for action in actions):
            self._reported_at[name] = now
        actuator = Actuator(self._kube, self._agents, upgrade)
        try:
            complete = await actuator.apply(actions)
        except (ConflictError, NotFoundError):
            complete = False
        finally:
            self._memory(name).learn(actuator.applied, actuator.refused, now)
        return Pass(
            actions=actions,
            conflicted=not complete,
            in_flight=bool(upgrade.status.in_flight),
            over=not actions and (upgrade.finished or upgrade.deleting),
            applied=tuple(actuator.applied),
            upgrade=upgrade,
        )

    async def gather(self, name: str) -> FleetSnapshot:
        """Read everything the plan depends upon.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
        """
        upgrade, memory = parse_upgrade(await self._kube.get(UPGRADES, name)), self._memory(name)
        fleet = await gather(
            self._kube,
            upgrade,
            self._fleet,
            namespace=self._agents.namespace,
            operator_node=self._operator_node,
            setbacks=memory.setbacks(self._kube.utcnow()),
            agents_lost=memory.agents_lost,
        )
        while missing := unread(fleet, self._kube.utcnow()):
            found = {node: tuple(map(parse_pod, await self._kube.list_pods_on_node(node))) for node in missing}
            fleet = replace(fleet, pods={**fleet.pods, **found})
        return fleet

    def _memory(self, name: str) -> Memory:
        return self._memories.setdefault(name, Memory())


def _needs_work(upgrade: Upgrade | None) -> bool:
    """Whether a pass may have something to do; one that cannot be read counts, so that its pass complains."""
    return upgrade is None or upgrade.active or upgrade.deleting or retry_asked(upgrade)
