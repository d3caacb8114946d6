"""Examines the cluster and the node at one moment and plans the upgrade. Shared by runs and prechecks.

Nothing here can change anything on the node: it has read-only views.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import structlog

from nodeupgrade.agent.host.staging import backup_path, staged_path
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.shared.run_settings import DriftPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.domain.agent_pods import volume_on_node
from nodeupgrade.domain.errors import NodeUpgradeError, Refused, Transient
from nodeupgrade.domain.finding import PASSING, Finding
from nodeupgrade.domain.node.checks.drift import find
from nodeupgrade.domain.node.checks.kubelet import kubelet_is_managed
from nodeupgrade.domain.node.checks.services import Clients, Risk, namespaces, risk_of
from nodeupgrade.domain.node.cluster.dependants import dependants
from nodeupgrade.domain.node.cluster.endpoints import API_SERVER, addresses_of, answering
from nodeupgrade.domain.node.cluster.guard_probe import exposure_seconds
from nodeupgrade.domain.node.files import NewFile
from nodeupgrade.domain.node.planning import Examination, examine
from nodeupgrade.domain.node.request import Replacement, RunRequest
from nodeupgrade.domain.node.run.task_report import AND_UNTOUCHED, failed_status
from nodeupgrade.domain.nodes import view_node
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.domain.rollout.reach import reach_of
from nodeupgrade.engine.node.facts import drift, gather
from nodeupgrade.engine.node.facts.host import surroundings, volumes
from nodeupgrade.engine.node.facts.manifests import manifests
from nodeupgrade.engine.node.facts.next_start import next_start
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import NodeSideKube

LOOKS = 12
LOOK_AGAIN_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterView:
    """What the API server shows at the moment of the examination."""

    node: Json
    pods: tuple[Json, ...]
    clients: Clients


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked of the node, and what is there for it."""

    task: Task
    attempt: RunId
    replacement: Replacement | Finding
    files: tuple[NewFile, ...]


class Examiner:
    """Examines one node for one task."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: HostView) -> None:
        self._settings = settings
        self._kube = kube
        self._host = host

    def running(self, task: Task) -> gather.RunningKubelet:
        """Return the running kubelet.

        Raises:
            Refused: the kubelet does not run as the unit that the task names.
        """
        return gather.running_kubelet(self._host.services, self._host.kubelet, task.spec.kubelet.unit)

    def program(self, task: Task) -> PurePosixPath:
        """Return the path of the running kubelet's program.

        Raises:
            Refused: as for `running`, or the program is not on disk any more.
        """
        return _program(self.running(task))

    async def informed(self, task: Task) -> AgentSettings:
        """Return the settings with what only node and cluster tell: where the artifact is, and what it must not be.

        Raises:
            Refused: how the kubelet is configured cannot be told.
            UnavailableError: the API server's own addresses cannot be read.
        """
        settings, where = self._settings, None
        if settings.artifact_pod is not None:
            layout = await asyncio.to_thread(gather.kubelet_layout, self._host.files, self.running(task))
            where = volume_on_node(layout.root, settings.artifact_pod)
        hosts = (*settings.api_servers, *await self._api_servers(task))
        return replace(settings, from_image=where, reach=reach_of(settings.allowed, hosts))

    async def _api_servers(self, task: Task) -> tuple[str, ...]:
        if task.spec.artifact.kind is not ArtifactKind.URL:
            return ()
        return addresses_of(API_SERVER, await self._kube.list_services((API_SERVER.partition("/")[0],)))

    async def settled(
        self, task: Task, attempt: RunId, replacement: Replacement | Finding, files: tuple[NewFile, ...]
    ) -> Examination:
        """Examine the node, repeatedly for a while if all refusals are of a kind that often passes.

        Raises:
            Refused: a fact about the node cannot be determined.
            Transient: the runtime still does not answer at the last look.
        """
        for look in range(1, LOOKS):
            try:
                examination = await self._look(task, attempt, replacement, files)
            except Transient as error:
                log.info("cannot look at the node yet", error=str(error), look=look)
            else:
                if not examination.refusals or not {finding.reason for finding in examination.refusals} <= PASSING:
                    return examination
                log.info("not yet", findings=[str(finding) for finding in examination.refusals], look=look)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return await self._look(task, attempt, replacement, files)

    async def _look(
        self, task: Task, attempt: RunId, replacement: Replacement | Finding, files: tuple[NewFile, ...]
    ) -> Examination:
        """Read cluster and node at the same moment; a plan from stale pods proves nothing."""
        began = time.monotonic()
        node_object = await self._kube.get_node(self._settings.node)
        pods = await self._kube.list_pods_on_node(self._settings.node)
        clients = await self._clients(task, pods)
        cluster = _ClusterView(node=node_object, pods=tuple(pods), clients=clients)
        asked = _Asked(task=task, attempt=attempt, replacement=replacement, files=files)
        examination = await asyncio.to_thread(self._examine, asked, cluster)
        log.info("examined", seconds=round(time.monotonic() - began, 3), pods=len(cluster.pods))
        return examination

    async def _clients(self, task: Task, pods: Iterable[Json]) -> Clients:
        """Return the Services that depend on the node's pods, if there is a risk to them; failing to is no refusal."""
        spec = task.spec
        target = KubeletVersion.parse(spec.to_version)
        risk = risk_of(target, spec.verify.readiness_guard, guarded=spec.guard.wanted)
        places = namespaces(parse_pod(pod) for pod in pods)
        if risk is Risk.NONE or not places:
            return Clients(risk=risk)
        try:
            clients = Clients(risk=risk, services=answering(await self._kube.list_services(places)))
        except NodeUpgradeError as error:
            log.info("cannot read who answers for Services", error=str(error))
            clients = Clients(risk=risk, unread=str(error))
        try:
            return replace(clients, dependants=dependants(await self._kube.list_dependants(places)))
        except NodeUpgradeError as error:
            log.info("cannot read what depends on the pods", error=str(error))
            return replace(clients, unread_dependants=str(error))

    def _examine(self, asked: _Asked, cluster: _ClusterView) -> Examination:
        spec = asked.task.spec
        runtime = view_node(dict(cluster.node)).runtime_name
        running = replace(self.running(asked.task), runtime=runtime)
        program = _program(running)
        layout = gather.kubelet_layout(self._host.files, running)
        start = drift.look(self._host, running, layout, cluster.node)
        found_drift = find(start, spec.kubelet.configuration_drift)
        if found_drift.words is not None and found_drift.policy is DriftPolicy.ACCEPT:
            running = replace(running, words=found_drift.words)
            layout = gather.kubelet_layout(self._host.files, running)
        node = self._host.node(layout.endpoint, layout.runtime)
        request = RunRequest(
            spec=spec,
            run_id=asked.attempt,
            replacement=asked.replacement,
            staged=str(staged_path(program)),
            backup=str(backup_path(program)),
            exposure=exposure_seconds(map(dict, cluster.pods)),
            boot=node.clock.boot(),
            files=asked.files,
        )
        facts = gather.gather(
            node,
            running,
            request,
            node_object=cluster.node,
            pods=cluster.pods,
            clients=cluster.clients,
            then=next_start(self._host.files, running.words, asked.files, start) if asked.files else None,
        )
        facts = replace(
            facts,
            drift=found_drift,
            volumes_seen=volumes.look(self._host, facts),
            seen_around=surroundings.look(self._host, facts),
        )
        return examine(request, facts, layout, manifests(self._host.files, layout))


def _program(running: gather.RunningKubelet) -> PurePosixPath:
    if running.program is None:
        raise Refused(
            Reason.UNSUPPORTED_SERVICE_MANAGER,
            "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first",
            check=kubelet_is_managed.name,
        )
    return running.program


def given_up(run_id: str, error: Exception) -> TaskStatus:
    """Return the status for a technical failure before anything was touched."""
    if isinstance(error, NodeUpgradeError):
        reason, message = Reason.STEP_FAILED, f"cannot look at the node: {error}"
    else:
        reason, message = Reason.INTERNAL_ERROR, f"unexpected {type(error).__name__}: {error}"
    return failed_status(run_id, reason, f"{message}{AND_UNTOUCHED}")
