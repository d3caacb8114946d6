"""What earlier runs have left on the node: one that goes on, or one of whose end nobody was told.

A task may be deleted while its run is under way, and made anew under another name of the run. What the node has been
through is told to whoever asks next, instead of that nothing was touched.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

import structlog

from nodeupgrade.agent.host.executor_service import not_over
from nodeupgrade.api.json import MalformedFileError
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import task_run
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.domain.errors import Inconsistent
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.attempts import is_worth_another
from nodeupgrade.domain.node.run.journal import Journal, Outcome
from nodeupgrade.domain.node.run.report import report_of
from nodeupgrade.ports.files import FilesView
from nodeupgrade.ports.runs import AgentRuns

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The newest run of others.

    Attributes:
        attempt: the last of its attempts.
        journal: of that one; it may go on.
        earlier: of those before.
    """

    attempt: RunId
    plan: RunPlan
    journal: Journal
    earlier: tuple[Journal, ...]


class EarlierRuns:
    """Looks through the runs of one node on behalf of one run."""

    def __init__(self, node: NodeName, run: RunId, runs: AgentRuns, files: FilesView) -> None:
        self._node = node
        self._run = run
        self._runs = runs
        self._files = files

    def not_begun(self) -> list[RunId]:
        """Plans of other runs that nobody has begun.

        Raises:
            Refused: a journal cannot be read.
        """
        try:
            return [run for run in self._runs.plans_not_begun() if task_run(run) != self._run]
        except Inconsistent as error:
            raise not_over(error) from error

    def own(self) -> bool:
        """Whether an attempt of the run itself has begun.

        Raises:
            Inconsistent: one of its journals cannot be read.
        """
        return any(self._runs.read_journal(run).records for run in self._runs.of(self._run))

    def find(self, task: Task) -> EarlierRun | None:
        """The run to be told of before anything else is done, if there is one.

        A run that goes on is. One that is over is told once, and an upgrade by the same NodeUpgrade, whose result the
        node still has, as often as it is asked for: nobody would ask again who knew of it.

        Raises:
            Refused: a journal cannot be read, or a run has stopped on the way and needs a human.
            Inconsistent: the plan of a run that goes on cannot be read.
        """
        try:
            others = [run for run in self._runs.begun_runs() if task_run(run) != self._run]
            if not others:
                return None
            journal = self._runs.read_journal(others[-1])
        except Inconsistent as error:
            raise not_over(error) from error
        same = [run for run in others[:-1] if task_run(run) == task_run(others[-1])]
        earlier = tuple(self._runs.read_journal(run) for run in same)
        if journal.finished is None:
            if (
                trouble := self._runs.trouble(others[-1])
            ) is not None:  # started again, it might undo a person's repair
                raise not_over(f"the executor of run {others[-1]} stopped: {trouble}")
            plan = self._runs.require_plan(others[-1])
        elif (known := self._readable(others[-1], journal)) is None or not self._counts(task, known, journal):
            return None
        else:
            plan = known
        return EarlierRun(attempt=others[-1], plan=plan, journal=journal, earlier=earlier)

    def _readable(self, run: RunId, journal: Journal) -> RunPlan | None:
        try:
            report_of(journal)
            return self._runs.read_plan(run)
        except (Inconsistent, MalformedFileError) as error:
            log.warning("what an earlier run has done cannot be told", run=run, error=str(error))
            return None

    def _counts(self, task: Task, plan: RunPlan, journal: Journal) -> bool:
        report, told = report_of(journal), self._runs.is_told(plan.run_id)
        if report is None or plan.node != self._node or (self.own() and not is_worth_another(journal)):
            return False
        if report.outcome is not Outcome.UPGRADED or plan.to_version != task.spec.to_version:
            return not told
        by_the_same = plan.run_id.startswith(f"{task.spec.upgrade_ref.uid[:8]}-")
        in_place = self._files.digest(PurePosixPath(plan.swap.path)) == plan.swap.after
        return in_place and (by_the_same or not told)
