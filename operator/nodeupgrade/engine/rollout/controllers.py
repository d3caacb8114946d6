"""Puts the two controllers together: of rollouts, and of the nodes in flight."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.engine.rollout.actuator import EventRecorder
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.rollout.node_controller import NodeController
from nodeupgrade.engine.rollout.reader import FleetSource, LiveFleet
from nodeupgrade.engine.rollout.rollout_controller import RolloutController
from nodeupgrade.engine.rollout.snapshots import Snapshots, Term
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.health import HealthSource, NoHealth

RECENT_SECONDS, GATHERING_SECONDS = 1.0, 0.2
"""What saves requests in a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """Both controllers, and what they share. The caller runs ``recorder``."""

    snapshots: Snapshots
    recorder: EventRecorder
    rollouts: RolloutController
    nodes: NodeController

    def forget(self) -> None:
        """Forget everything that is kept in memory, at the end of a term."""
        self.snapshots.forget()
        self.recorder.forget()


def build_controllers(
    kube: TypedKube,
    agents: AgentPodSettings,
    *,
    operator_node: str | None = None,
    source: FleetSource | None = None,
    health: HealthSource | None = None,
    term: Term | None = None,
    recent_seconds: float = 0.0,
    gathering_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    on_slot_unused: Callable[[str], None] = lambda _name: None,
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None] = lambda _upgrade, _nodes: None,
) -> Controllers:
    """Build the controllers of one operator.

    Args:
        kube: The API server.
        agents: Settings of agent pods.
        operator_node: The node that the operator runs on, if known.
        source: Source of Nodes, tasks, agent pods and other NodeUpgrades; live lists by default.
        health: Source of the readings of health checks; by default nothing is ever known of them.
        term: This leader's term; None if nobody else can write.
        recent_seconds: See ``Snapshots``; by default, everything is read each time.
        gathering_seconds: See ``GuardWriter``.
        clock: Seconds, monotonic.
        on_slot_unused: See ``NodeController``.
        on_slots: See ``RolloutController``.
    """
    recorder = EventRecorder(kube)
    snapshots = Snapshots(
        kube,
        agents,
        source or LiveFleet(kube, agents.namespace),
        GuardWriter(kube, agents.namespace, gathering_seconds),
        health or NoHealth(),
        operator_node=None if operator_node is None else NodeName(operator_node),
        term=term,
        recent_seconds=recent_seconds,
        clock=clock,
    )
    return Controllers(
        snapshots=snapshots,
        recorder=recorder,
        rollouts=RolloutController(snapshots, recorder, on_slots),
        nodes=NodeController(snapshots, recorder, on_slot_unused),
    )
