"""The control plane: what drives NodeUpgrades."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.engine.agent_pod import AgentSettings
from nodeupgrade.engine.fleet_source import InformedFleet
from nodeupgrade.engine.rollout_run import Rollouts
from nodeupgrade.engine.write_through import WriteThrough

STATUS_INTERVAL = timedelta(seconds=5)
"""How far writes of a NodeUpgrade's status are apart that only move counters along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """What drives NodeUpgrades, and the informers it sees the fleet through; they must be kept running."""

    rollouts: Rollouts
    fleet: InformedFleet


@asynccontextmanager
async def control_plane(
    agents: AgentSettings,
    *,
    operator_node: str | None = None,
    kubeconfig: Path | None = None,
    concerned: Callable[[str | None], None],
    troubled: Callable[[str, str], None],
) -> AsyncIterator[ControlPlane]:
    """Build it over the real API server; for ``concerned`` and ``troubled`` see InformedFleet."""
    async with KubeClient.open(kubeconfig) as kube:
        fleet = InformedFleet(kube, agents.namespace, concerned=concerned, troubled=troubled)
        rollouts = Rollouts(
            WriteThrough(kube, fleet),
            agents,
            operator_node=operator_node,
            fleet=fleet,
            status_interval=STATUS_INTERVAL,
        )
        yield ControlPlane(rollouts=rollouts, fleet=fleet)
