"""The control plane: what drives NodeUpgrades."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from nodeupgrade.adapters.kube import KubeClient, Session
from nodeupgrade.adapters.observability import log_to_stderr
from nodeupgrade.adapters.observability.metrics import InformerState, Metrics, State, served
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.reader import InformedFleet
from nodeupgrade.engine.rollout.reconcile import Rollouts
from nodeupgrade.engine.rollout.write_through import WriteThrough
from nodeupgrade.ports.kube import UPGRADES, ForbiddenError, NotFoundError

__all__ = ["ControlPlane", "Session", "control_plane", "log_to_stderr"]

STATUS_INTERVAL = timedelta(seconds=5)
"""How far writes of a NodeUpgrade's status are apart that only move counters along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """What drives NodeUpgrades, and the informers it sees the fleet through; they must be kept running."""

    kube: KubeClient
    rollouts: Rollouts
    fleet: InformedFleet
    metrics: Metrics

    def session(self) -> Session:
        """Open a session with our login, for kopf."""
        return self.kube.session()

    async def check_access(self) -> None:
        """Look whether everything that is followed is there and may be followed.

        Raises:
            NotFoundError: A CustomResourceDefinition is not installed.
            ForbiddenError: A permission is missing.
            UnavailableError: The API server does not answer.
        """
        followed = (UPGRADES, *(informer.resource for informer in self.fleet.informers))
        try:
            await asyncio.gather(*map(self.kube.check_access, followed))
        except NotFoundError as error:
            raise NotFoundError(f"{error}; install the CustomResourceDefinitions (crds/)") from error
        except ForbiddenError as error:
            raise ForbiddenError(f"{error}; grant the permissions in manifests/operator-rbac.yaml") from error


@asynccontextmanager
async def control_plane(
    agents: AgentPodSettings,
    *,
    operator_node: str | None = None,
    kubeconfig: Path | None = None,
    metrics_host: str,
    metrics_port: int,
    queue_depth: Callable[[], int],
    concerned: Callable[[str | None], None],
    troubled: Callable[[str, str], None],
) -> AsyncIterator[ControlPlane]:
    """Build it over the real API server, and serve its metrics; for the last two see InformedFleet.

    Raises:
        NoClusterError: Nothing says which API server.
        OSError: The port for metrics is taken.
    """
    fleet: InformedFleet | None = None

    def state() -> State:
        return State() if fleet is None else _state(fleet, queue_depth())

    metrics = Metrics(state)
    async with KubeClient.open(kubeconfig, answered=metrics.answered) as kube:
        fleet = InformedFleet(kube, agents.namespace, concerned=concerned, troubled=troubled)
        rollouts = Rollouts(
            WriteThrough(kube, fleet),
            agents,
            operator_node=operator_node,
            fleet=fleet,
            status_interval=STATUS_INTERVAL,
        )
        with served(metrics, metrics_host, metrics_port):
            yield ControlPlane(kube=kube, rollouts=rollouts, fleet=fleet, metrics=metrics)


def _state(fleet: InformedFleet, queue_depth: int) -> State:
    """Copy what gauges are made of; called from another thread than everything else."""
    informers = tuple(
        InformerState(
            kind=each.resource.kind,
            synced=each.synced,
            silence=each.silence,
            relists={why.value: count for why, count in dict(each.relists).items()},
        )
        for each in fleet.informers
    )
    return State(tasks=fleet.tasks.views.values(), informers=informers, queue_depth=queue_depth)
