"""Examines the cluster and the node at one moment and plans the upgrade. Shared by runs and prechecks.

Nothing here can change anything on the node: it has read-only views.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.agent_pods import volume_on_node
from nodeupgrade.cluster.kube_api import NodeSideKube, TooLargeError
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import NodeUpgradeError, Refused, Transient
from nodeupgrade.findings.finding import PASSING, Finding
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.checks.dependants import dependants
from nodeupgrade.node.checks.drift import find
from nodeupgrade.node.checks.kubelet import kubelet_is_managed
from nodeupgrade.node.checks.service_endpoints import API_SERVER, addresses_of, answering
from nodeupgrade.node.checks.traffic import Clients, Risk, namespaces, risk_of
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.examination.planning import examine as examine_facts
from nodeupgrade.node.facts import drift, gather
from nodeupgrade.node.facts.credentials import unusable_credentials
from nodeupgrade.node.facts.next_start import next_start
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.node import HostView
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.request import Replacement, RunRequest
from nodeupgrade.node.task_status.task_status import AND_UNTOUCHED, failed_status
from nodeupgrade.node.verification.readiness_flaps import exposure_seconds
from nodeupgrade.sources.download_addresses import address_policy

LOOKS = 12
LOOK_AGAIN_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationInput:
    """What the task asks of the node, and what was fetched for it."""

    task: Task
    attempt: RunId
    replacement: Replacement | Finding
    files: tuple[NewFile, ...]


@dataclass(frozen=True, slots=True)
class Examiner:
    """Examines one node for one task."""

    settings: AgentSettings
    kube: NodeSideKube
    host: HostView

    def running(self, task: Task) -> gather.RunningKubelet:
        """Return the running kubelet.

        Raises:
            Refused: the kubelet does not run as the unit that the task names.
        """
        return gather.running_kubelet(self.host.services, self.host.kubelet, task.spec.kubelet.unit)

    def program(self, task: Task) -> PurePosixPath:
        """Return the path of the running kubelet's program.

        Raises:
            Refused: as for `running`, or the program is not on disk any more.
        """
        return _program(self.running(task))

    async def complete_settings(self, task: Task) -> AgentSettings:
        """Return the settings with what only node and cluster know: where the artifact is, and where it must not be.

        Raises:
            Refused: the kubelet's configuration cannot be determined.
            UnavailableError: the API server's own addresses cannot be read.
        """
        settings, where = self.settings, None
        if settings.artifact_pod is not None:
            layout = await asyncio.to_thread(gather.kubelet_layout, self.host.files, self.running(task))
            where = volume_on_node(layout.root, settings.artifact_pod)
        hosts = (*settings.api_servers, *await self._api_servers(task))
        urls = () if settings.allowed is None else settings.allowed.urls
        return replace(settings, from_image=where, reach=address_policy(urls, hosts))

    async def _api_servers(self, task: Task) -> tuple[str, ...]:
        if task.spec.artifact.kind is not ArtifactKind.URL:
            return ()
        return addresses_of(API_SERVER, await self.kube.list_services((API_SERVER.partition("/")[0],)))

    async def examine(self, given: ExaminationInput) -> Examination:
        """Examine the node, repeatedly for a minute if all refusals are of a kind that often passes.

        Raises:
            Refused: a fact about the node cannot be determined.
            Transient: the runtime still does not answer at the last look.
        """
        for look in range(1, LOOKS):
            try:
                examination = await self._look(given)
            except Transient as error:
                log.info("examination_failed", error=str(error), look=look)
            else:
                if not examination.refusals or not {finding.reason for finding in examination.refusals} <= PASSING:
                    return examination
                log.info("node_not_ready_for_run", findings=[*map(str, examination.refusals)], look=look)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return await self._look(given)

    async def _look(self, given: ExaminationInput) -> Examination:
        """Read cluster and node at one moment; a plan from stale pods proves nothing."""
        began = time.monotonic()
        node_object = await self.kube.get_node(self.settings.node)
        try:
            pods = await self.kube.list_pods_on_node(self.settings.node)
        except TooLargeError as error:
            raise Refused(Reason.PODS_TOO_LARGE, str(error)) from error
        clients = await self._clients(given.task, pods)
        examination = await asyncio.to_thread(self._examine, given, node_object, pods, clients)
        log.info("node_examined", seconds=round(time.monotonic() - began, 3), pods=len(pods))
        return examination

    async def _clients(self, task: Task, pods: Iterable[Json]) -> Clients:
        """Return the Services that depend on the node's pods, if there is a risk to them; a failure is no refusal."""
        spec = task.spec
        target = KubeletVersion.parse(spec.to_version)
        risk = risk_of(target, spec.verify.readiness_guard, guarded=spec.guard.wanted)
        places = namespaces(parse_pod(pod) for pod in pods)
        if risk is Risk.NONE or not places:
            return Clients(risk=risk)
        try:
            clients = Clients(risk=risk, services=answering(await self.kube.list_services(places)))
        except NodeUpgradeError as error:
            log.info("endpoints_read_failed", error=str(error))
            clients = Clients(risk=risk, unread=str(error))
        try:
            return replace(clients, dependants=dependants(await self.kube.list_dependants(places)))
        except NodeUpgradeError as error:
            log.info("dependants_read_failed", error=str(error))
            return replace(clients, unread_dependants=str(error))

    def _examine(self, given: ExaminationInput, node_object: Json, pods: list[Json], clients: Clients) -> Examination:
        spec = given.task.spec
        runtime = view_node(dict(node_object)).runtime_name
        running = replace(self.running(given.task), runtime=runtime)
        program = _program(running)
        layout = gather.kubelet_layout(self.host.files, running)
        start = drift.look(self.host, running, layout, node_object)
        found_drift = find(start, spec.kubelet.configuration_drift)
        if found_drift.words is not None and found_drift.policy is DriftPolicy.ACCEPT:
            running = replace(running, words=found_drift.words)
            layout = gather.kubelet_layout(self.host.files, running)
        node = self.host.node(layout.endpoint, layout.runtime)
        request = RunRequest(
            spec=spec,
            run_id=given.attempt,
            namespace=self.settings.namespace,
            replacement=given.replacement,
            staged=str(staged_path(program)),
            backup=str(backup_path(program)),
            exposure=exposure_seconds(map(dict, pods)),
            boot=node.clock.boot(),
            files=given.files,
        )
        manifests = read_manifests(self.host.files, layout)
        facts = gather.gather(
            node,
            running,
            request,
            node_object=node_object,
            pods=pods,
            clients=clients,
            manifests=manifests,
            then=next_start(self.host.files, running.words, given.files, start) if given.files else None,
        )
        facts = replace(
            facts,
            drift=found_drift,
            around=look_at_surroundings(self.host, facts),
            unusable_credentials=unusable_credentials(self.host, facts),
        )
        return examine_facts(request, facts, layout, manifests)


def _program(running: gather.RunningKubelet) -> PurePosixPath:
    if running.program is None:
        raise Refused(
            Reason.UNSUPPORTED_SERVICE_MANAGER,
            "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first",
            check=kubelet_is_managed.name,
        )
    return running.program


def technical_failure_status(run_id: str, error: Exception) -> TaskStatus:
    """Return the status for a technical failure before anything was touched."""
    if isinstance(error, NodeUpgradeError):
        reason, message = Reason.STEP_FAILED, f"cannot examine the node: {error}"
    else:
        reason, message = Reason.INTERNAL_ERROR, f"unexpected {type(error).__name__}: {error}"
    return failed_status(run_id, reason, f"{message}{AND_UNTOUCHED}")
