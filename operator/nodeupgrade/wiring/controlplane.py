"""Builds the control plane: client, informers, rollouts and metrics."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from nodeupgrade.adapters.health.probe import ClusterProbe
from nodeupgrade.adapters.kube.client import KubeClient
from nodeupgrade.adapters.kube.transport import Patience, Session
from nodeupgrade.adapters.logs import log_to_stderr
from nodeupgrade.adapters.metrics import InformerState, Metrics, State, served
from nodeupgrade.adapters.notifications import Webhooks
from nodeupgrade.api.configuration import Configuration
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.engine.election import LEASE_NAME, Elector
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.controllers import IN_A_CLUSTER, Controllers, build_controllers
from nodeupgrade.engine.rollout.health_monitor import HealthMonitor
from nodeupgrade.engine.rollout.notifier import Notifier
from nodeupgrade.engine.rollout.reader import InformedFleet
from nodeupgrade.engine.rollout.write_through import WriteThrough
from nodeupgrade.ports.kube import LEASES, UPGRADES, ForbiddenError, NotFoundError

__all__ = ["ControlPlane", "Metrics", "Session", "control_plane", "log_to_stderr"]

HEALTH_READER = "system:serviceaccount:{namespace}:nodeupgrade-health-checks"
"""The identity that health checks read objects with: it may read what administrators give it, and nothing else."""

ONE_ATTEMPT = Patience(request_seconds=15, retry_seconds=0)
"""Health checks are evaluated again anyway."""

ELECTION_PATIENCE = Patience(request_seconds=3.0, retry_seconds=0.0)
"""A renewal that takes longer is worth nothing; the next one follows soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """Everything that reconciles NodeUpgrades. The caller runs ``health``, ``notifier``, ``fleet`` and the recorder."""

    kube: KubeClient
    controllers: Controllers
    fleet: InformedFleet
    health: HealthMonitor
    notifier: Notifier
    metrics: Metrics
    elector: Elector
    namespace: str

    def session(self) -> Session:
        """Open a session with our login, for kopf to use."""
        return self.kube.session()

    async def check_access(self) -> None:
        """Check that every resource to be watched exists and may be watched, and that the Lease may be read.

        Raises:
            NotFoundError: A CustomResourceDefinition is not installed.
            ForbiddenError: A permission is missing.
            UnavailableError: The API server does not answer.
        """
        followed = (UPGRADES, *(informer.resource for informer in self.fleet.informers))
        try:
            await asyncio.gather(*map(self.kube.check_access, followed), self._check_lease())
        except NotFoundError as error:
            raise NotFoundError(f"{error}; install the CustomResourceDefinitions (crds/)") from error
        except ForbiddenError as error:
            raise ForbiddenError(f"{error}; grant the permissions in manifests/operator-rbac.yaml") from error

    async def _check_lease(self) -> None:
        with contextlib.suppress(NotFoundError):  # the first leader creates it
            await self.kube.get(LEASES.within(self.namespace), LEASE_NAME)


@asynccontextmanager
async def control_plane(
    agents: AgentPodSettings,
    configuration: Configuration,
    *,
    operator_node: str | None = None,
    pod: str,
    kubeconfig: Path | None = None,
    metrics_host: str,
    metrics_port: int,
    queue_depth: Callable[[], int],
    on_rollout_change: Callable[[str], None],
    on_node_change: Callable[[NodeName], None],
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None],
    on_error: Callable[[str, str], None],
    on_undelivered: Callable[[str, str], None],
    on_election: Callable[[str], None],
) -> AsyncIterator[ControlPlane]:
    """Build the control plane for the real API server, and serve its metrics.

    Args:
        agents: Image and namespace of agent pods.
        configuration: The servers that it may speak to.
        operator_node: The node that the operator runs on.
        pod: The name of the operator's pod.
        kubeconfig: For running outside a cluster; None inside.
        metrics_host: Address on which to serve metrics.
        metrics_port: Port on which to serve metrics.
        queue_depth: Returns the length of the work queue, for the metrics.
        on_rollout_change: Called with the name of a NodeUpgrade that there may be something to do for.
        on_node_change: See ``on_change`` of InformedFleet.
        on_slots: See RolloutController.
        on_error: See InformedFleet.
        on_undelivered: See ``on_error`` of Notifier.
        on_election: Called with why this process does not lead.

    Raises:
        NoClusterError: No API server is configured.
        OSError: The port for metrics is in use.
    """
    fleet: InformedFleet | None = None
    elector: Elector | None = None

    def state() -> State:
        return State() if fleet is None or elector is None else _state(fleet, queue_depth(), elector)

    metrics = Metrics(state)
    reader = HEALTH_READER.format(namespace=agents.namespace)
    async with (
        KubeClient.open(kubeconfig, answered=metrics.answered) as kube,
        KubeClient.open(kubeconfig, patience=ELECTION_PATIENCE, answered=metrics.answered) as electing,
        KubeClient.open(kubeconfig, patience=ONE_ATTEMPT, answered=metrics.answered, impersonated=reader) as as_reader,
    ):
        # A name of its own for every process: the API server's fence compares what precedes the underscore.
        elector = Elector(electing, agents.namespace, f"{pod}_{uuid.uuid4().hex[:12]}", on_news=on_election)
        kube.only_while(elector.may_write)
        probe = ClusterProbe(as_reader, configuration.prometheus, kube.utcnow)
        health = HealthMonitor(probe, kube.utcnow, on_rollout_change)
        fleet = InformedFleet(kube, agents.namespace, on_change=on_node_change, on_error=on_error)
        writing = WriteThrough(kube, fleet)
        receivers = configuration.notifications
        names = tuple(receiver.name for receiver in receivers)
        notifier = Notifier(writing, Webhooks(receivers), names, on_error=on_undelivered)
        controllers = build_controllers(
            writing,
            agents,
            operator_node=operator_node,
            source=fleet,
            health=health,
            term=elector,
            thrift=IN_A_CLUSTER,
            on_slot_unused=on_rollout_change,
            on_slots=on_slots,
        )
        with served(metrics, metrics_host, metrics_port):
            yield ControlPlane(
                kube=kube,
                controllers=controllers,
                fleet=fleet,
                health=health,
                notifier=notifier,
                metrics=metrics,
                elector=elector,
                namespace=agents.namespace,
            )


def _state(fleet: InformedFleet, queue_depth: int, elector: Elector) -> State:
    """Copy the values behind the gauges; called from the metrics server's thread, not the event loop's."""
    informers = tuple(
        InformerState(
            kind=each.resource.kind,
            synced=each.synced,
            silence=each.silence,
            relists={why.value: count for why, count in dict(each.relists).items()},
        )
        for each in fleet.informers
    )
    return State(
        tasks=fleet.tasks.views.values(), informers=informers, queue_depth=queue_depth, leads=elector.may_write()
    )
