"""Builds the control plane: client, informers, rollouts and metrics."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from nodeupgrade.api.configuration import Configuration
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import LEASES, PODS, UPGRADES, ForbiddenError, KubeApi, NotFoundError
from nodeupgrade.controlplane.metrics.collector import Metrics, State, serve_metrics
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, operator_image
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import Queues
from nodeupgrade.fleet.controllers.snapshots import GATHERING_SECONDS, RECENT_SECONDS, Snapshots
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.health import objects
from nodeupgrade.fleet.health.monitor import HealthMonitor
from nodeupgrade.fleet.health.probe import ClusterProbe
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME, Elector
from nodeupgrade.fleet.notices.notifier import Notifier
from nodeupgrade.fleet.notices.webhooks import Webhooks

_log = structlog.get_logger(__name__)

DEFAULT_LIVENESS = "http://0.0.0.0:8080/healthz"

HEALTH_READER = "system:serviceaccount:{namespace}:nodeupgrade-health-checks"
"""The identity that health checks read objects with: it may read what administrators give it, and nothing else."""

ONE_ATTEMPT = Patience(request_seconds=15, retry_seconds=0)
"""Health checks are evaluated again anyway."""

ELECTION_PATIENCE = Patience(request_seconds=3.0, retry_seconds=0.0)
"""A renewal that takes longer is worth nothing; the next one follows soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings that the operator's Deployment decides."""

    agents: AgentPodSettings  # image, that of the operator's own pod if empty, and namespace of agent pods
    node: str | None = None  # the node that the operator runs on, which is upgraded last
    pod: str = "operator"  # the name of the operator's pod, or of its machine; tells its replicas apart
    kubeconfig: Path | None = None  # for running outside a cluster; None inside
    allowed_file: Path | None = None  # where what is allowed was read; None if it is what is allowed without a file
    liveness: str = DEFAULT_LIVENESS  # URL at which to answer the liveness probe
    metrics_host: str = ""  # address on which to serve metrics to Prometheus
    metrics_port: int = 0  # port on which to serve metrics
    configuration: Configuration = field(default_factory=Configuration)  # the servers that the operator may speak to
    cluster_budget: ClusterBudget = field(default_factory=ClusterBudget)  # what all rollouts together may take


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
async def control_plane(settings: OperatorSettings, queues: Queues) -> AsyncIterator[ControlPlane]:
    """Build the control plane for the real API server, and serve its metrics; what changes is put into the queues.

    Raises:
        NoClusterError: No API server is configured.
        NotFoundError, ForbiddenError, UnavailableError: The operator's own pod, of whose image agents are to be, cannot
            be read.
        OSError: The port for metrics is in use.
    """
    fleet: InformedFleet | None = None
    elector: Elector | None = None

    def state() -> State:
        if fleet is None or elector is None:
            return State()
        tasks, leads = fleet.tasks.views.values(), elector.may_write()
        return State(tasks=tasks, informers=fleet.informers, queue_depth=len(queues), leads=leads)

    metrics, kubeconfig = Metrics(state), settings.kubeconfig
    reader = HEALTH_READER.format(namespace=settings.agents.namespace)
    async with (
        KubeClient.open(kubeconfig, answered=metrics.answered) as kube,
        KubeClient.open(kubeconfig, patience=ELECTION_PATIENCE, answered=metrics.answered) as electing,
        KubeClient.open(
            kubeconfig,
            patience=ONE_ATTEMPT,
            answered=metrics.answered,
            impersonated=reader,
            page_size=objects.PAGE_SIZE,
        ) as as_reader,
    ):
        agents = settings.agents
        if not agents.image:
            agents = replace(agents, image=await own_image(kube, agents.namespace, settings.pod))
        # A name of its own for every process: the API server's fence compares what precedes the underscore.
        identity = f"{settings.pod}_{uuid.uuid4().hex[:12]}"
        elector = Elector(electing, agents.namespace, identity, on_standby=_log_election)
        kube.only_while(elector.may_write)
        probe = ClusterProbe(as_reader, settings.configuration.prometheus, kube.utcnow)
        health = HealthMonitor(probe, kube.utcnow, queues.rollouts.add)
        fleet = InformedFleet(
            kube, agents.namespace, read_upgrade, on_change=queues.node_changed, on_error=_log_watch_problem
        )
        writing = WriteThrough(kube, fleet)
        receivers = settings.configuration.notifications
        names = tuple(receiver.name for receiver in receivers)
        notifier = Notifier(writing, Webhooks(receivers), names, on_error=_log_delivery_problem)
        snapshots = Snapshots(
            writing,
            agents,
            fleet,
            GuardWriter(writing, agents.namespace, GATHERING_SECONDS),
            health,
            operator_node=None if settings.node is None else NodeName(settings.node),
            term=elector,
            cluster_budget=settings.cluster_budget,
            recent_seconds=RECENT_SECONDS,
        )
        controllers = Controllers(snapshots, on_slot_unused=queues.rollouts.add, on_slots=queues.in_flight)
        with serve_metrics(metrics, settings.metrics_host, settings.metrics_port):
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


async def own_image(kube: KubeApi, namespace: str, pod: str) -> str:
    """Return the image that the operator's own pod names, whoever has set it: a values file, an overlay, Argo CD.

    Raises:
        NotFoundError: There is no such pod, or no container of the operator in it.
    """
    if (image := operator_image((await kube.get(PODS.within(namespace), pod))["spec"])) is not None:
        return image
    raise NotFoundError(f"pod {namespace}/{pod} has no container of the operator; set AGENT_IMAGE to the agents' image")


def _log_election(reason: str) -> None:
    _log.info("standing_by", because=reason)


def _log_watch_problem(kind: str, problem: str) -> None:
    _log.warning("watch_failed", kind=kind, error=problem)


def _log_delivery_problem(receiver: str, problem: str) -> None:
    _log.warning("notification_failed", receiver=receiver, error=problem)
