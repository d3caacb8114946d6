"""The reconcile loop of one rollout: gather, plan, apply. Only failure counts are kept in memory."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.catalogue import read_upgrade
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
    """The result of one pass, and whether to reconcile again.

    Attributes:
        actions: the planned actions, in the order in which they were applied.
        conflicted: whether an action did not succeed, e.g. because of a concurrent write, so that it is requeued.
        in_flight: whether a node holds a slot, so that its task is worth watching.
        over: whether nothing is left to do until the object itself changes.
        applied: the actions that succeeded.
        upgrade: the NodeUpgrade as it was read; None if it does not exist.
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
    """Reconciles NodeUpgrades, one pass at a time; may be stopped after any write and resumed by any other instance.

    Args:
        kube: The API server.
        agents: Settings of agent pods.
        operator_node: The node that the operator runs on, if known.
        fleet: Source of Nodes, tasks, agent pods and other NodeUpgrades; live lists by default.
        status_interval: Minimum interval between status writes that only update counters.
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
        """Return the names of all NodeUpgrades that may need work."""
        known = await self._fleet.upgrades_listed()
        return tuple(name for name, each in known.items() if _needs_work(each.upgrade))

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Remove orphaned cordons; see ``Sweep``."""
        return await self._sweep.make()

    async def reconcile(self, name: str) -> Pass:
        """Run one pass for one NodeUpgrade; if it does not exist, there is nothing to do."""
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
        """Read everything the plan depends on, pods included.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
        """
        upgrade, memory = read_upgrade(await self._kube.get(UPGRADES, name)), self._memory(name)
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
            pods = {node: tuple(map(parse_pod, await self._kube.list_pods_on_node(node))) for node in missing}
            fleet = replace(fleet, pods={**fleet.pods, **pods})
        return fleet

    def _memory(self, name: str) -> Memory:
        return self._memories.setdefault(name, Memory())


def _needs_work(upgrade: Upgrade | None) -> bool:
    """Report whether a pass may have something to do; an unreadable NodeUpgrade counts, so that its pass reports it."""
    return upgrade is None or upgrade.active or upgrade.deleting or retry_asked(upgrade)
