"""The agent's main flow: determine the run's progress, continue the run, and report to the task until it is over."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

import structlog

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import attempt_of, task_run
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.kube_api import NodeSideKube
from nodeupgrade.errors import Inconsistent, NodeUpgradeError, Refused
from nodeupgrade.node.agent.earlier_runs import Attempts, EarlierRuns
from nodeupgrade.node.agent.ended_since import with_ended_since
from nodeupgrade.node.agent.examine import Examiner, technical_failure_status
from nodeupgrade.node.agent.guard_request import Guard
from nodeupgrade.node.agent.handover import POLL_SECONDS, READ_TASK_EVERY, Handover, OutdatedError
from nodeupgrade.node.agent.pod_watch import PodWatch
from nodeupgrade.node.agent.precheck import Precheck
from nodeupgrade.node.agent.preparation import Preparation, Prepared
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.task_reporter import NoLongerWanted, TaskReporter
from nodeupgrade.node.artifacts.artifacts import Artifacts
from nodeupgrade.node.bundle.bundles import Bundles
from nodeupgrade.node.executor.control import ExecutorService
from nodeupgrade.node.journal.journal import Journal
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.attempts import is_worth_another
from nodeupgrade.node.run.report import probes_forgotten_at
from nodeupgrade.node.task_status.run_status import run_status
from nodeupgrade.node.task_status.task_status import (
    earlier_run_status,
    lingering_status,
    not_repeated_status,
    refusal_status,
    stranded_status,
    unreadable_status,
    with_readiness,
)
from nodeupgrade.node.verification.readiness_flaps import Flaps

ATTEMPTS = 3

log = structlog.get_logger()


class ArtifactNeededError(Exception):
    """This agent was created without the files of the artifact's image; another one gets them."""


class Agent:
    """Carries out one run of one task.

    Args:
        failpoint: every new plan passes through it; a test may spoil the plan there.
    """

    def __init__(
        self,
        settings: AgentSettings,
        kube: NodeSideKube,
        host: Host,
        *,
        runs: AgentRuns,
        bundles: Iterable[Bundles],
        artifacts: Artifacts,
        failpoint: Callable[[RunPlan], RunPlan],
    ) -> None:
        self._settings = settings
        self._host = host
        self._runs = runs
        self._executor = ExecutorService(host, runs, *bundles)
        self._guard = Guard(settings, kube, host)
        self._pods = PodWatch(settings, kube)
        self._reporter = TaskReporter(settings, kube, self._complete)
        self._handover = Handover(
            settings=settings,
            kube=kube,
            runs=runs,
            executor=self._executor,
            reporter=self._reporter,
            guard=self._guard,
            pods=self._pods,
            host=host,
        )
        examiner, report = Examiner(settings, kube, host), self._reporter.report
        self._preparation = Preparation(
            settings=settings,
            host=host,
            runs=runs,
            executor=self._executor,
            examiner=examiner,
            artifacts=artifacts,
            report=report,
            failpoint=failpoint,
        )
        self._precheck = Precheck(
            settings=settings, host=host, runs=runs, examiner=examiner, artifacts=artifacts, report_status=report
        )
        self._earlier_runs = EarlierRuns(settings.node, settings.run_id, runs, host.files)
        self._previous: Attempts | None = None
        self._runs_to_report = {settings.run_id}

    async def serve(self) -> None:
        """Do what the task asks for; return once its terminal status is reported."""
        is_precheck = False
        try:
            task = await self._reporter.read()
            is_precheck = task.spec.action is TaskAction.PRECHECK
            status = await (self._precheck_only(task) if is_precheck else self._run(task))
        except NoLongerWanted:
            log.info("run_no_longer_wanted", run=self._settings.run_id)
            return
        except Inconsistent as error:
            log.critical("run_state_read_failed", error=str(error))
            status = unreadable_status(self._settings.run_id, str(error))
        finally:
            await self._pods.end()
        if await self._reporter.report_until_accepted(status) and not is_precheck:
            await asyncio.to_thread(self._mark_reported)

    async def _precheck_only(self, task: Task) -> TaskStatus:
        if not self._reporter.may_begin(task, TaskAction.PRECHECK):
            return self._handover.never_started()
        status = await self._precheck.report(task)
        await self._reporter.read()
        return status

    async def _run(self, task: Task) -> TaskStatus:
        self._pods.flaps = Flaps(flapped=frozenset(task.reported.containers.readiness_flaps))
        if (status := await self._settle_earlier(task)) is not None:
            return status
        number, run = 1, self._settings.run_id
        while (status := await self._attempt(task, attempt_of(run, number), last=number == ATTEMPTS)) is None:
            number, task = number + 1, await self._reporter.read()
        return status

    async def _settle_earlier(self, task: Task) -> TaskStatus | None:
        """Discard plans of earlier runs that never began; finish and report the earlier run that needs it.

        Returns:
            The terminal status, if that settles the task.
        """
        await self._executor.await_records()
        begun = await asyncio.to_thread(self._earlier_runs.has_begun)
        try:
            for run in [] if begun else await asyncio.to_thread(self._earlier_runs.not_begun):
                await self._executor.forget(run, task.spec.kubelet.unit)
            inherited = await asyncio.to_thread(self._earlier_runs.find, task)
        except Refused as refusal:
            return refusal_status(self._settings.run_id, (refusal.finding,))
        except NodeUpgradeError as error:
            if begun or isinstance(error, Inconsistent):
                raise
            return technical_failure_status(self._settings.run_id, error)
        return None if inherited is None else await self._inherit(task, inherited)

    async def _inherit(self, task: Task, inherited: Attempts) -> TaskStatus | None:
        plan, journal = inherited.plan, inherited.journals[-1]
        log.info("earlier_run_found", run=plan.run_id, over=journal.finished is not None)
        self._runs_to_report.add(task_run(plan.run_id))
        self._guard.report = await asyncio.to_thread(self._runs.read_guard, plan.run_id)
        if journal.finished is None:
            await self._executor.ensure_running(plan)
            result = await self._handover.watch(Prepared(plan))
            if isinstance(result, TaskStatus):
                return result
            journal = result
        return await self._conclude(task, Attempts(plan, (*inherited.journals[:-1], journal)), last=False)

    async def _attempt(self, task: Task, attempt: RunId, *, last: bool) -> TaskStatus | None:
        """Carry one attempt to its end; return ``None`` if containers changed and another attempt is worthwhile."""
        plan = await asyncio.to_thread(self._runs.read_plan, attempt)
        self._guard.report = await asyncio.to_thread(self._runs.read_guard, attempt)
        prepared: Prepared | TaskStatus
        if plan is not None:
            prepared = Prepared(plan)
        else:
            if not self._reporter.may_begin(task, TaskAction.UPGRADE):
                return await self._after_previous(self._handover.never_started())
            await self._require_artifact(task)
            prepared = await self._preparation.prepare(task, attempt)
            if isinstance(prepared, TaskStatus):
                return await self._after_previous(prepared)
        plan = prepared.plan
        journal = await asyncio.to_thread(self._runs.read_journal, attempt)
        if not journal.records:
            try:
                ended = await self._handover.begin(prepared)
            except OutdatedError:
                return await self._attempt(await self._reporter.read(), attempt, last=last)
            if ended is not None:
                return await self._after_previous(ended)
        elif journal.finished is None:
            await self._executor.ensure_running(plan)
        if journal.finished is None:
            result = await self._handover.watch(prepared)
            if isinstance(result, TaskStatus):
                return await self._after_previous(result)
            journal = result
        previous = () if self._previous is None else self._previous.journals
        return await self._conclude(task, Attempts(plan, (*previous, journal)), last=last)

    async def _require_artifact(self, task: Task) -> None:
        """End an agent that was created to watch a run, if it has to begin one with a kubelet from an image.

        Raises:
            ArtifactNeededError: the API server has accepted a status by which the next agent gets the image's files.
        """
        from_image = task.spec.artifact.kind is ArtifactKind.IMAGE
        if from_image and self._settings.artifact_pod is None and self._previous is None:
            await self._reporter.report_until_accepted(self._preparation.staging())
            raise ArtifactNeededError("the node is examined again, which needs the kubelet from its image")

    async def _conclude(self, task: Task, ended: Attempts, *, last: bool) -> TaskStatus | None:
        """Return the terminal status after an attempt has ended; ``None`` if another attempt is worthwhile."""
        plan, journal, earlier = ended.plan, ended.journals[-1], ended.journals[:-1]
        if journal.finished is None:
            return stranded_status(
                self._settings.run_id, plan, journal, self._handover.why_stuck(plan, journal), earlier
            )
        other_version = plan.to_version != task.spec.to_version
        await self._executor.clean_up(plan)  # also before another attempt, which begins beside no executor
        if not last and not other_version and is_worth_another(journal):
            log.info("containers_changed_while_planning")
            self._previous = ended
            return None
        self._runs.retire()
        if other_version:
            return earlier_run_status(self._settings.run_id, plan, ended.journals)
        status = run_status(self._settings.run_id, plan, journal, earlier)
        lingered_until = await self._linger(plan, journal)
        if lingered_until is None:
            return status
        status = await asyncio.to_thread(with_ended_since, status, self._host, plan, journal)
        return replace(status, finished_at=lingered_until)

    async def _linger(self, plan: RunPlan, journal: Journal) -> datetime | None:
        """Watch the pods until the running kubelet has probed them all, or the task calls it off.

        Returns:
            When the watch ended; ``None`` if there is nothing to wait for.
        """
        started = probes_forgotten_at(plan, journal)
        if started is None:
            return None
        await self._pods.begin()
        clock = self._host.clock
        exposure = self._pods.flaps.exposure
        left = min(started + exposure - clock.now(), exposure).total_seconds()
        end, polls = clock.monotonic() + left, 0
        while clock.monotonic() < end:
            await self._reporter.report(lingering_status(self._settings.run_id, plan, journal))
            await asyncio.sleep(POLL_SECONDS)
            polls += 1
            if polls % READ_TASK_EVERY == 0:
                task = await self._reporter.read_or_recall()
                if task is None or self._reporter.is_late(task) or task.spec.action is not TaskAction.UPGRADE:
                    break
        await self._pods.refresh()
        return clock.now()

    async def _after_previous(self, status: TaskStatus) -> TaskStatus:
        """Return the status after an attempt that never began, including earlier attempts, which did touch the node."""
        if self._previous is None:
            return status
        await self._executor.clean_up(self._previous.plan)
        self._runs.retire()
        return not_repeated_status(self._settings.run_id, self._previous.plan, self._previous.journals, status)

    def _mark_reported(self) -> None:
        try:
            for attempt in (attempt for run in self._runs_to_report for attempt in self._runs.attempts(run)):
                self._runs.mark_reported(attempt)
        except NodeUpgradeError as error:
            log.warning("run_report_repeated", error=str(error))

    def _complete(self, status: TaskStatus) -> TaskStatus:
        return with_readiness(status, self._pods.flaps, self._guard.report, self._pods.trouble)
