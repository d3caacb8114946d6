"""Finds earlier runs on the node: one that is not over, or one whose result was never reported.

A task may be deleted while its run is under way, and recreated with another run id. The new task then gets the result
of the earlier run, instead of a report that nothing was touched.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.json import MalformedFileError
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import is_run_of, task_run
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.executor.control import earlier_run_refusal
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.journal.journal import Journal, Outcome
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.attempts import is_worth_another
from nodeupgrade.node.run.report import report_of

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at one run, of which the last may still be under way."""

    plan: RunPlan  # of the last one
    journals: tuple[Journal, ...]  # of all, oldest first


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """Searches the runs of one node on behalf of one run."""

    node: NodeName
    run: RunId
    runs: AgentRuns
    files: FilesView

    def not_begun(self) -> list[RunId]:
        """Return other runs with a plan that no executor has begun.

        Raises:
            Refused: a journal cannot be read.
        """
        try:
            return [run for run in self.runs.plans_not_begun() if task_run(run) != self.run]
        except Inconsistent as error:
            raise earlier_run_refusal(error) from error

    def has_begun(self) -> bool:
        """Report whether an attempt at the present run has begun.

        Raises:
            Inconsistent: one of its journals cannot be read.
        """
        return any(self.runs.read_journal(run).records for run in self.runs.attempts(self.run))

    def find(self, task: Task) -> Attempts | None:
        """Return the earlier run to finish and report before anything else is done, if there is one.

        That is a run under way, or a finished one that was not reported yet. A successful upgrade by the same
        NodeUpgrade is reported again whenever it is asked for, as long as its result is still in place.

        Raises:
            Refused: a journal cannot be read, or a run stopped halfway and a person is needed.
            Inconsistent: the plan of a run under way cannot be read.
        """
        try:
            begun = [run for run in self.runs.begun_runs() if task_run(run) != self.run]
            if not begun:
                return None
            journal = self.runs.read_journal(begun[-1])
        except Inconsistent as error:
            raise earlier_run_refusal(error) from error
        previous_attempts = [run for run in begun[:-1] if task_run(run) == task_run(begun[-1])]
        earlier = tuple(self.runs.read_journal(run) for run in previous_attempts)
        if journal.finished is None:
            if (trouble := self.runs.trouble(begun[-1])) is not None:  # restarted, it might undo a person's repair
                raise earlier_run_refusal(f"the executor of run {begun[-1]} stopped: {trouble}")
            plan = self.runs.require_plan(begun[-1])
        else:
            readable = self._read_plan(begun[-1], journal)
            if readable is None or not self._is_relevant(task, readable, journal):
                return None
            plan = readable
        return Attempts(plan, (*earlier, journal))

    def _read_plan(self, run: RunId, journal: Journal) -> RunPlan | None:
        try:
            report_of(journal)
            return self.runs.read_plan(run)
        except (Inconsistent, MalformedFileError, OSError) as error:
            log.warning("earlier_run_report_failed", run=run, error=str(error))
            return None

    def _is_relevant(self, task: Task, plan: RunPlan, journal: Journal) -> bool:
        report, is_reported = report_of(journal), self.runs.is_reported(plan.run_id)
        if report is None or plan.node != self.node or (self.has_begun() and not is_worth_another(journal)):
            return False
        if report.outcome is not Outcome.UPGRADED or plan.to_version != task.spec.to_version:
            return not is_reported
        same_upgrade = is_run_of(task.spec.upgrade_ref.uid, plan.run_id)
        in_place = self.files.digest(PurePosixPath(plan.swap.path)) == plan.swap.after
        return in_place and (same_upgrade or not is_reported)
