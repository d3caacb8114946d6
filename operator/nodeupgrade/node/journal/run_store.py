"""The runs of a node: plans, journals, and the messages between agent and executor.

The agent runs in a pod, the executor as a service of the host, and either may disappear at any moment. So everything
they exchange is stored on the node's disk, in one directory per run. Each of them has its own half of this interface.
"""

from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.task.status import GuardReport
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.node.journal.journal import Journal, Record
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.plan import Newcomers, RunPlan, ShownKubelet

GO_ON, END = "go-on", "end"
"""Names of files in a run's directory by which a person requests to start the kubelet anyway, or to end the run."""
JOURNAL = "journal"
"""Name of the file in a run's directory with its journal."""
RESCUE = "rescue"
"""Name of the file in a run's directory with the rescue script's progress."""
KUBELET = "kubelet.json"
"""Name of the file in a run's directory with the kubelet that the API server shows."""
TROUBLE = "trouble"
"""Name of the file in a run's directory with why the executor stopped before the run was over."""


def volatile(name: str, run: RunId) -> PurePosixPath:
    """Return where a file of a run's directory is continued, for this boot, where that cannot be written."""
    return PurePosixPath("/run", f"nodeupgrade-{name}-{run}")


def volatile_files(run: RunId) -> tuple[PurePosixPath, ...]:
    """Return all files that a run may have outside its directory; nothing reads them once it is over."""
    return tuple(volatile(name, run) for name in (JOURNAL, KUBELET, RESCUE, TROUBLE))


def going_on(run: RunId) -> str:
    """Return the command by which a person overrules what a run's rollback waits for."""
    return f"touch {RUNS / run / GO_ON}"


class BusyError(NodeUpgradeError):
    """Another process is writing this journal."""


class Rescue(StrEnum):
    """The rescue script's progress with a run, as it writes it into the run's directory."""

    NONE = ""
    BEGUN = "begun"
    """Anything may be half restored: the executor must roll back, whatever the journal says."""
    UNREADABLE = "unreadable"
    """It may have begun: what lies in the place of its word cannot be read."""
    DONE = "done"
    """Everything is restored, except that the kubelet is fenced and has to be started."""


class JournalStore(Protocol):
    """The journal of one run: an append-only, durable list of records with one writer."""

    def load(self) -> Journal:
        """Read all records.

        Raises:
            Inconsistent: the journal is damaged before its last line.
        """

    def append(self, record: Record) -> None:
        """Add a record. It is on stable storage on return, unless `journal.may_be_lost` holds for it.

        Raises:
            StepFailed: it could not be made durable; the effect that it announces must not start.
        """

    def scrub(self) -> None:
        """Remove before-images if the run is over. Atomic; nothing is appended afterwards.

        Raises:
            StepFailed: the journal cannot be written.
        """


class JournalOnDisk(JournalStore, Protocol):
    """A journal from which lines can be taken that stayed although writing them failed, and that may be removed."""

    def keep(self, count: int) -> None:
        """Count only the first records from now on; the next append removes the others."""

    def put_back(self) -> None:
        """Write it again if it has records and somebody has removed or replaced it; a failure is tried again later."""


class RunsView(Protocol):
    """What both agent and executor read."""

    def read_plan(self, run: RunId) -> RunPlan | None:
        """Read the plan of a run; ``None`` if there is none.

        Raises:
            Inconsistent: another version of this program wrote it, or it is damaged, cannot be read, or another run's.
        """

    def require_plan(self, run: RunId) -> RunPlan:
        """Read the plan of a run that must have one.

        Raises:
            Inconsistent: as for `read_plan`, or there is none.
        """

    def read_journal(self, run: RunId) -> Journal:
        """Read the journal of a run, even while its executor writes it.

        Raises:
            Inconsistent: it is damaged, or cannot be read.
        """


class AgentRuns(RunsView, Protocol):
    """The agent's half: it writes plans, answers the executor, and reports to the API server how runs end."""

    def write_plan(self, plan: RunPlan) -> None:
        """Write a plan durably; any executor that starts from now on carries it out.

        Raises:
            StepFailed: it cannot be written.
        """

    def discard(self, run: RunId) -> None:
        """Remove a plan that no executor has begun, so that none ever begins it.

        Raises:
            Inconsistent: an executor has begun it.
            StepFailed: it cannot be removed.
        """

    def begun(self) -> RunId | None:
        """Return the newest run that an executor has begun and that is not over.

        Raises:
            Inconsistent: a journal is damaged, or cannot be read.
        """

    def begun_runs(self) -> list[RunId]:
        """List all runs that an executor has begun, over or not, oldest first; raises as `begun`."""

    def plans_not_begun(self) -> list[RunId]:
        """List all runs that have a plan and that no executor has begun; raises as `begun`."""

    def attempts(self, run: RunId) -> list[RunId]:
        """List the attempts at one run of a task that have a plan, oldest first."""

    def is_reported(self, run: RunId) -> bool:
        """Report whether the API server has accepted the outcome of a run."""

    def mark_reported(self, run: RunId) -> None:
        """Record durably that the outcome of a run was reported. Idempotent.

        Raises:
            StepFailed: it cannot be recorded.
        """

    def write_guard(self, run: RunId, report: GuardReport) -> None:
        """Record the state of the readiness guard, right before a plan is handed over.

        Raises:
            StepFailed: it cannot be written.
        """

    def read_guard(self, run: RunId) -> GuardReport:
        """Return the report recorded at handover; an empty one if none can be read."""

    def handing_over(self, run: RunId) -> bool:
        """Report whether the handover of a run's plan has begun."""

    def trouble(self, run: RunId) -> str | None:
        """Return why the executor stopped before the run was over, if it did."""

    def request_abort(self, run: RunId) -> None:
        """Ask the executor of a run to roll back."""

    def owner_changes_wanted(self, run: RunId) -> bool:
        """Report whether the executor asks what owners have changed."""

    def owner_changes(self, run: RunId) -> Evidence:
        """Return what was sent so far."""

    def report_owner_changes(self, run: RunId, changes: Evidence) -> None:
        """Send the executor what owners have changed since the run was planned; adds to earlier calls."""

    def newcomers_wanted(self, run: RunId) -> bool:
        """Report whether the executor asks which pods were created after planning."""

    def report_newcomers(self, run: RunId, newcomers: Newcomers) -> None:
        """Send the executor the pods that were created after planning; replaces earlier calls."""

    def arrivals(self, run: RunId) -> Arrivals | None:
        """Return the containers that the executor asks to plan; ``None`` if it asks for none."""

    def report_planned(self, run: RunId, planned: PlannedArrivals) -> None:
        """Send the executor the plan for what came; replaces earlier calls."""

    def report_kubelet(self, run: RunId, shown: ShownKubelet) -> None:
        """Send the executor what the API server shows of the kubelet; replaces earlier calls."""

    def retire(self) -> None:
        """Remove the oldest finished runs beyond the number kept, and what the remaining ones no longer need."""


class ExecutorRuns(RunsView, Protocol):
    """The executor's half: it finds its run, writes the journal, and asks the agent about pods."""

    def unfinished(self) -> RunId | None:
        """Return the newest run that has a plan and is not over.

        Raises:
            Inconsistent: a journal is damaged.
        """

    def open_journal(self, run: RunId, *, seize: bool = False) -> AbstractContextManager[JournalOnDisk]:
        """Open the journal of a run for writing.

        Args:
            run: whose it is.
            seize: whether to take it over from a process that has it locked and is not ours.

        Raises:
            BusyError: another executor is writing it.
        """

    def report_trouble(self, run: RunId, message: str) -> None:
        """Record why the executor stopped before the run was over, if that can be written anywhere."""

    def abort_requested(self, run: RunId) -> bool:
        """Report whether a rollback was requested."""

    def ask_for_owner_changes(self, run: RunId) -> Evidence:
        """Ask the agent what owners have changed since the run was planned; return its answers so far."""

    def ask_for_newcomers(self, run: RunId) -> Newcomers | None:
        """Ask the agent which pods were created after planning; return its latest answer."""

    def ask_for_plan(self, run: RunId, arrivals: Arrivals) -> PlannedArrivals | None:
        """Ask the agent to plan what came after planning; return its latest answer."""

    def shown_kubelet(self, run: RunId) -> ShownKubelet | None:
        """Return what the API server shows of the kubelet, as the agent reported it last."""

    def rescue(self, run: RunId) -> Rescue:
        """Return the rescue script's progress with a run."""

    def go_on(self, run: RunId) -> bool:
        """Report whether a person asked to start the old kubelet although the runtime lost pods."""

    def end(self, run: RunId) -> bool:
        """Report whether a person asked to end the run whose rollback fails or is held, to repair the node by hand."""

    def keep_plan(self, plan: RunPlan) -> None:
        """Write the plan of a run that has begun again, if somebody has removed it; a failure is tried again later."""

    def beat(self, run: RunId) -> None:
        """Show the rescue script that the executor is alive while it has nothing to write."""
