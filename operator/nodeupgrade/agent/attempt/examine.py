"""Look at API server and node at one moment, and work out what would be done: what a run and a precheck share.

Nothing in here can change anything on the node: it holds only views of it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import structlog

from nodeupgrade.agent.host.staging import backup_path, staged_path
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.domain.errors import NodeUpgradeError, Refused, Transient
from nodeupgrade.domain.finding import PASSING, Finding
from nodeupgrade.domain.node.checks.drift import find
from nodeupgrade.domain.node.checks.services import Clients, Risk, namespaces, risk_of
from nodeupgrade.domain.node.endpoints import answering
from nodeupgrade.domain.node.guard_probe import exposure_seconds
from nodeupgrade.domain.node.planning import Examination, examine
from nodeupgrade.domain.node.request import Replacement, RunRequest
from nodeupgrade.domain.node.run.task_report import AND_UNTOUCHED, failed_status
from nodeupgrade.domain.nodes import view_node
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.engine.node.facts import drift, gather
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import NodeSideKube

LOOKS = 12
LOOK_AGAIN_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What the API server shows at the moment at which the node is looked at."""

    node: Json
    pods: tuple[Json, ...]
    clients: Clients


class Examiner:
    """Looks at one node on behalf of one task."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: HostView) -> None:
        self._settings = settings
        self._kube = kube
        self._host = host

    def running(self, task: Task) -> gather.RunningKubelet:
        """The kubelet that runs now.

        Raises:
            Refused: it does not run as the unit that the task names.
        """
        return gather.running_kubelet(self._host.services, self._host.kubelet, task.spec.kubelet.unit)

    def program(self, task: Task) -> PurePosixPath:
        """The program of the kubelet that runs now.

        Raises:
            Refused: as for `running`, and when the program is not on the disk any more.
        """
        return _program(self.running(task))

    async def settled(self, task: Task, attempt: RunId, replacement: Replacement | Finding) -> Examination:
        """Examine the node, for a while again and again if what objects to an upgrade often passes by itself.

        Raises:
            Refused: something about the node cannot be known.
            Transient: the runtime did not answer all the while.
        """
        for look in range(1, LOOKS):
            try:
                found = await self._look(task, attempt, replacement)
            except Transient as error:
                log.info("cannot look at the node yet", error=str(error), look=look)
            else:
                if not found.refusals or not {finding.reason for finding in found.refusals} <= PASSING:
                    return found
                log.info("not yet", findings=[str(finding) for finding in found.refusals], look=look)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return await self._look(task, attempt, replacement)

    async def _look(self, task: Task, attempt: RunId, replacement: Replacement | Finding) -> Examination:
        """Look at API server and node at the same moment; a plan from stale pods proves nothing."""
        node_object = await self._kube.get_node(self._settings.node)
        pods = await self._kube.list_pods_on_node(self._settings.node)
        clients = await self._clients(task, pods)
        shown = _Shown(node=node_object, pods=tuple(pods), clients=clients)
        return await asyncio.to_thread(self._examine, task, attempt, replacement, shown)

    async def _clients(self, task: Task, pods: Iterable[Json]) -> Clients:
        """Who depends on the node's pods, as far as anybody asks; not knowing it is no reason not to go on."""
        spec = task.spec
        target = KubeletVersion.parse(spec.to_version)
        risk = risk_of(target, spec.verify.readiness_guard, guarded=spec.guard.wanted)
        places = namespaces(parse_pod(pod) for pod in pods)
        if risk is Risk.NONE or not places:
            return Clients(risk=risk)
        try:
            return Clients(risk=risk, services=answering(await self._kube.list_services(places)))
        except NodeUpgradeError as error:
            log.info("cannot read who answers for Services", error=str(error))
            return Clients(risk=risk, unread=str(error))

    def _examine(self, task: Task, attempt: RunId, replacement: Replacement | Finding, shown: _Shown) -> Examination:
        spec = task.spec
        running = self.running(task)
        program = _program(running)
        layout = gather.kubelet_layout(self._host.files, running)
        found = find(drift.look(self._host, running, layout, shown.node), spec.kubelet.configuration_drift)
        if found.words is not None and found.policy is DriftPolicy.ACCEPT:
            running = replace(running, words=found.words)
            layout = gather.kubelet_layout(self._host.files, running)
        node = self._host.node(layout.endpoint, view_node(dict(shown.node)).runtime_name)
        request = RunRequest(
            spec=spec,
            run_id=attempt,
            replacement=replacement,
            staged=str(staged_path(program)),
            backup=str(backup_path(program)),
            exposure=exposure_seconds(map(dict, shown.pods)),
            boot=node.clock.boot(),
        )
        facts = gather.gather(node, running, request, node_object=shown.node, pods=shown.pods, clients=shown.clients)
        facts = replace(facts, drift=found)
        return examine(request, facts, layout, gather.manifests(self._host.files, layout))


def _program(running: gather.RunningKubelet) -> PurePosixPath:
    if running.program is None:
        raise Refused(
            Reason.UNSUPPORTED_SERVICE_MANAGER,
            "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first",
        )
    return running.program


def given_up(run_id: str, error: Exception) -> TaskStatus:
    """Examiner failed for a technical reason, before anything was touched."""
    if isinstance(error, NodeUpgradeError):
        reason, what = Reason.STEP_FAILED, f"cannot look at the node: {error}"
    else:
        reason, what = Reason.INTERNAL_ERROR, f"unexpected {type(error).__name__}: {error}"
    return failed_status(run_id, reason, f"{what}{AND_UNTOUCHED}")
