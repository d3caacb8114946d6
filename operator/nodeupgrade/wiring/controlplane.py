"""The control plane: what drives NodeUpgrades."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.engine.agent_pod import AgentSettings
from nodeupgrade.engine.rollout_run import Rollouts


@asynccontextmanager
async def rollouts(
    agents: AgentSettings, *, operator_node: str | None = None, kubeconfig: Path | None = None
) -> AsyncIterator[Rollouts]:
    """Build what drives NodeUpgrades, over the real API server."""
    async with KubeClient.open(kubeconfig) as kube:
        yield Rollouts(kube, agents, operator_node=operator_node)
