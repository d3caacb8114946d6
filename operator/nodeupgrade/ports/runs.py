"""The runs of a node, as agent and executor share them: plans, journals, and what the two tell each other.

They run in different worlds, a pod and a service of the host, and either may be gone at any moment. So all that passes
between them is kept on the node's disk, one directory for each run, and each has its own half of this.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from nodeupgrade.api.task.status import GuardReport
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.node.plan import Newcomers, RunPlan
from nodeupgrade.domain.node.run.journal import Journal
from nodeupgrade.domain.node.run.rescue_script import Rescue
from nodeupgrade.ports.journal import JournalStore


class BusyError(NodeUpgradeError):
    """Another process writes this journal."""


class RunsView(Protocol):
    """What both read."""

    def read_plan(self, run: RunId) -> RunPlan | None:
        """Read the plan of a run; ``None`` when there is none.

        Raises:
            Inconsistent: it was written by another version of this program, or is damaged.
        """
        ...

    def require_plan(self, run: RunId) -> RunPlan:
        """Read the plan of a run that must have one.

        Raises:
            Inconsistent: likewise, or there is none.
        """
        ...

    def read_journal(self, run: RunId) -> Journal:
        """Read the journal of a run, also while its executor writes it.

        Raises:
            Inconsistent: it is damaged.
        """
        ...


class AgentRuns(RunsView, Protocol):
    """The agent's half: it makes plans, answers the executor, and tells the API server how runs end."""

    def write_plan(self, plan: RunPlan) -> None:
        """Write a plan durably; an executor started from now on carries it out.

        Raises:
            StepFailed: it cannot be written.
        """
        ...

    def discard(self, run: RunId) -> None:
        """Forget a plan that nobody has begun to carry out and nobody shall.

        Raises:
            Inconsistent: somebody has begun.
            StepFailed: it cannot be removed.
        """
        ...

    def begun(self) -> RunId | None:
        """The newest run that an executor has begun and that is not over.

        Raises:
            Inconsistent: a journal is damaged.
        """
        ...

    def begun_runs(self) -> list[RunId]:
        """All runs that an executor has begun, over or not, oldest first; raises as `begun`."""
        ...

    def plans_not_begun(self) -> list[RunId]:
        """All runs that have a plan and that no executor has begun; raises as `begun`."""
        ...

    def of(self, wanted: RunId) -> list[RunId]:
        """The attempts of one run of a task that have a plan, oldest first."""
        ...

    def is_told(self, run: RunId) -> bool:
        """Whether the API server has accepted how a run ended, for a task that asked for it."""
        ...

    def mark_told(self, run: RunId) -> None:
        """Note for good that how a run ended was told. Repeating it is harmless.

        Raises:
            StepFailed: it cannot be noted.
        """
        ...

    def write_guard(self, run: RunId, report: GuardReport) -> None:
        """Note, right before a plan is handed over, what there is to say of the readiness guard.

        Raises:
            StepFailed: it cannot be written.
        """
        ...

    def read_guard(self, run: RunId) -> GuardReport:
        """What was noted when the plan of a run was handed over; nothing, if it was not, or cannot be read."""
        ...

    def handing_over(self, run: RunId) -> bool:
        """Whether the plan of a run was at least about to be handed over."""
        ...

    def trouble(self, run: RunId) -> str | None:
        """Why the executor stopped without an end, if it did."""
        ...

    def request_abort(self, run: RunId) -> None:
        """Ask the executor of a run to go back."""
        ...

    def deleted_pods_wanted(self, run: RunId) -> bool:
        """Whether the executor wants to know which pods have been deleted."""
        ...

    def report_deleted(self, run: RunId, pods: Iterable[PodUid]) -> None:
        """Tell the executor of a run which pods have been deleted since it began; each call adds to the last."""
        ...

    def newcomers_wanted(self, run: RunId) -> bool:
        """Whether the executor wants to know which pods came after the planning."""
        ...

    def report_newcomers(self, run: RunId, newcomers: Newcomers) -> None:
        """Tell the executor of a run which pods came after its planning; each call replaces the last."""
        ...

    def retire(self) -> None:
        """Remove the oldest finished runs beyond those that are kept, and give up what the others need no more."""
        ...


class ExecutorRuns(RunsView, Protocol):
    """The executor's half: it finds the run that is its own, keeps its journal, and asks what only the agent knows."""

    def unfinished(self) -> RunId | None:
        """The newest run that has a plan and is not over.

        Raises:
            Inconsistent: a journal is damaged.
        """
        ...

    def open_journal(self, run: RunId) -> AbstractContextManager[JournalStore]:
        """Open the journal of a run for writing.

        Raises:
            BusyError: another executor is at work.
        """
        ...

    def report_trouble(self, run: RunId, message: str) -> None:
        """Leave word why the executor stopped without an end."""
        ...

    def abort_requested(self, run: RunId) -> bool:
        """Whether somebody asked to go back."""
        ...

    def ask_for_deleted_pods(self, run: RunId) -> frozenset[PodUid]:
        """Ask the agent which pods have been deleted since the run began; get what it has answered so far."""
        ...

    def ask_for_newcomers(self, run: RunId) -> Newcomers | None:
        """Ask the agent which pods came after the planning; get what it answered last."""
        ...

    def rescue(self, run: RunId) -> Rescue:
        """How far the rescue script has come with a run."""
        ...

    def go_on(self, run: RunId) -> bool:
        """Whether somebody wants the old kubelet to be started on a runtime that lost pods."""
        ...

    def beat(self, run: RunId) -> None:
        """Show the rescue script that an executor lives which has nothing to write."""
        ...
