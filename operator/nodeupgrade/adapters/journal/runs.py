"""All runs of a node: one directory each, holding the plan, the journal and, perhaps, a wish to abort.

The directory of a finished run is evidence and stays for a while; the oldest go first.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from nodeupgrade.adapters.files.atomic import (
    exists,
    fresh_beside,
    make_directory,
    read_chunks,
    sync_directory,
    write_all,
)
from nodeupgrade.adapters.journal.file import BusyError, FileJournal, drop_reserve, lock, read_journal, scrub
from nodeupgrade.api.codec import CodecError, decode, encode
from nodeupgrade.api.task_status import GuardReport
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.domain.errors import Inconsistent, StepFailed
from nodeupgrade.domain.node.evidence.shown import GO_ON
from nodeupgrade.domain.node.plan import PLAN_SCHEMA, Newcomers, RunPlan
from nodeupgrade.domain.node.run.journal import Journal
from nodeupgrade.domain.node.run.rescue_script import Rescue
from nodeupgrade.ports.disk import Disk

PLAN = "plan.json"
JOURNAL = "journal"
ABORT = "abort"
TROUBLE = "trouble"
DELETED = "deleted-pods"
DELETIONS_WANTED = "deleted-pods.wanted"
NEWCOMERS = "newcomers.json"
NEWCOMERS_WANTED = "newcomers.wanted"
RESCUE = "rescue"
GUARD = "guard"
UNTOLD = "untold"
KEPT = 5


class RunStore:
    """The runs below one directory.

    Args:
        root: the directory, as this process sees it; made when needed, readable by root only.
        kept: how many finished runs are kept.
        disk: what the system calls go to.
        lock: keeps other processes out of a journal that is written.
    """

    def __init__(self, root: Path, *, kept: int = KEPT, disk: Disk = os, lock: Callable[[int], None] = lock) -> None:
        self._root = root
        self._kept = kept
        self._disk = disk
        self._lock = lock

    def write_plan(self, plan: RunPlan) -> None:
        """Write a plan durably; an executor started from now on carries it out.

        Raises:
            StepFailed: it cannot be written.
        """
        directory = self._directory(plan.run_id)
        document = encode(plan)
        sealed = {"schema": plan.schema, "checksum": _checksum(document), "plan": document}
        try:
            make_directory(directory, mode=0o700, disk=self._disk)
            self._write(directory / UNTOLD, b"")
            self._write(directory / PLAN, json.dumps(sealed, indent=1).encode())
        except OSError as error:
            raise StepFailed(f"cannot write the plan of run {plan.run_id}: {error}") from error

    def read_plan(self, run: RunId) -> RunPlan | None:
        """Read the plan of a run; ``None`` when there is none.

        Raises:
            Inconsistent: it was written by another version of this program, or is damaged.
        """
        try:
            sealed = json.loads(self._read(self._directory(run) / PLAN))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise Inconsistent(f"the plan of run {run} is damaged: {error}") from error
        if not isinstance(sealed, dict) or sealed.get("schema") != PLAN_SCHEMA:
            raise Inconsistent(
                f"the plan of run {run} has another schema than {PLAN_SCHEMA}: finish it with the version that made it"
            )
        if sealed.get("checksum") != _checksum(sealed.get("plan")):
            raise Inconsistent(f"the plan of run {run} is damaged: its checksum is wrong")
        try:
            return decode(RunPlan, sealed["plan"])
        except CodecError as error:
            raise Inconsistent(f"the plan of run {run} cannot be read: {error}") from error

    def discard(self, run: RunId) -> None:
        """Forget a plan that nobody has begun to carry out and nobody shall.

        Raises:
            Inconsistent: somebody has begun.
            StepFailed: it cannot be removed.
        """
        directory = self._directory(run)
        if not exists(directory, self._disk):
            return
        try:
            with self.open_journal(run) as journal:  # an executor that comes now finds it locked, and later no plan
                if journal.load().records:
                    raise Inconsistent(f"run {run} has begun and cannot be forgotten")
                with suppress(FileNotFoundError):
                    self._disk.unlink(directory / PLAN)
                sync_directory(directory, self._disk)
        except BusyError as error:
            raise Inconsistent(f"run {run} is just being begun and cannot be forgotten") from error
        except OSError as error:
            raise StepFailed(f"cannot remove the plan of run {run}: {error}") from error

    def require_plan(self, run: RunId) -> RunPlan:
        """Read the plan of a run that must have one."""
        plan = self.read_plan(run)
        if plan is None:
            raise Inconsistent(f"run {run} has no plan")
        return plan

    def read_journal(self, run: RunId) -> Journal:
        """Read the journal of a run, also while its executor writes it."""
        return read_journal(self._directory(run) / JOURNAL, disk=self._disk)

    def open_journal(self, run: RunId) -> FileJournal:
        """Open the journal of a run for writing.

        Raises:
            BusyError: its executor is at work.
        """
        return FileJournal(self._directory(run) / JOURNAL, disk=self._disk, lock=self._lock)

    def unfinished(self) -> RunId | None:
        """The newest run that has a plan and is not over."""
        runs = (run for run in reversed(self._runs()) if self.read_journal(run).finished is None)
        return next(runs, None)

    def begun(self) -> RunId | None:
        """The newest run that an executor has begun and that is not over.

        Raises:
            Inconsistent: a journal is damaged.
        """
        for run in reversed(self._runs()):
            journal = self.read_journal(run)
            if journal.records and journal.finished is None:
                return run
        return None

    def begun_runs(self) -> list[RunId]:
        """All runs that an executor has begun, over or not, oldest first.

        Raises:
            Inconsistent: a journal is damaged.
        """
        return [run for run in self._runs() if self.read_journal(run).records]

    def plans_not_begun(self) -> list[RunId]:
        """All runs that have a plan and that no executor has begun.

        Raises:
            Inconsistent: a journal is damaged.
        """
        return [run for run in self._runs() if not self.read_journal(run).records]

    def of(self, task_run: RunId) -> list[RunId]:
        """The attempts of one run of a task that have a plan, oldest first."""
        return [run for run in self._runs() if run.rpartition(".")[0] == task_run]

    def is_told(self, run: RunId) -> bool:
        """Whether the API server has accepted how a run ended, for a task that asked for it.

        Of a run that was planned before there was such a mark it is taken to be so.
        """
        return not exists(self._directory(run) / UNTOLD, self._disk)

    def mark_told(self, run: RunId) -> None:
        """Note for good that how a run ended was told. Repeating it is harmless.

        Raises:
            StepFailed: it cannot be noted.
        """
        directory = self._directory(run)
        try:
            with suppress(FileNotFoundError):
                self._disk.unlink(directory / UNTOLD)
                sync_directory(directory, self._disk)
        except OSError as error:
            raise StepFailed(f"cannot write to the directory of run {run}: {error}") from error

    def report_trouble(self, run: RunId, message: str) -> None:
        """Leave word why the executor stopped without an end."""
        self._write(self._root / run / TROUBLE, message.encode())

    def trouble(self, run: RunId) -> str | None:
        """Why the executor stopped without an end, if it did."""
        try:
            return self._read(self._root / run / TROUBLE).decode(errors="replace")
        except FileNotFoundError:
            return None

    def request_abort(self, run: RunId) -> None:
        """Ask the executor of a run to go back."""
        self._write(self._directory(run) / ABORT, b"")

    def abort_requested(self, run: RunId) -> bool:
        """Whether somebody asked to go back."""
        return exists(self._directory(run) / ABORT, self._disk)

    def report_deleted(self, run: RunId, pods: Iterable[PodUid]) -> None:
        """Tell the executor of a run which pods have been deleted since it began; each call adds to the last."""
        known = self.deleted_pods(run)
        if not known.issuperset(pods):
            self._write(self._directory(run) / DELETED, "\n".join(sorted(known.union(pods))).encode())

    def ask_for_deleted_pods(self, run: RunId) -> frozenset[PodUid]:
        """Ask the agent which pods have been deleted since the run began; get what it has answered so far."""
        self._ask(run, DELETIONS_WANTED)
        return self.deleted_pods(run)

    def deleted_pods_wanted(self, run: RunId) -> bool:
        """Whether the executor wants to know which pods have been deleted."""
        return exists(self._directory(run) / DELETIONS_WANTED, self._disk)

    def deleted_pods(self, run: RunId) -> frozenset[PodUid]:
        """Pods that somebody has deleted since the run began, as far as the agent has told."""
        try:
            lines = self._read(self._directory(run) / DELETED).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return frozenset()
        return frozenset(PodUid(line) for line in lines)

    def report_newcomers(self, run: RunId, newcomers: Newcomers) -> None:
        """Tell the executor of a run which pods came after its planning; each call replaces the last."""
        if newcomers != self.newcomers(run):
            self._write(self._directory(run) / NEWCOMERS, json.dumps(encode(newcomers)).encode())

    def ask_for_newcomers(self, run: RunId) -> Newcomers | None:
        """Ask the agent which pods came after the planning; get what it answered last."""
        self._ask(run, NEWCOMERS_WANTED)
        return self.newcomers(run)

    def newcomers_wanted(self, run: RunId) -> bool:
        """Whether the executor wants to know which pods came after the planning."""
        return exists(self._directory(run) / NEWCOMERS_WANTED, self._disk)

    def newcomers(self, run: RunId) -> Newcomers | None:
        """Pods that came after the planning, as the agent told last; ``None`` if it did not, or nobody can read it."""
        try:
            return decode(Newcomers, json.loads(self._read(self._directory(run) / NEWCOMERS)))
        except (OSError, ValueError, CodecError):
            return None

    def write_guard(self, run: RunId, report: GuardReport) -> None:
        """Note, right before a plan is handed over, what there is to say of the readiness guard.

        Raises:
            StepFailed: it cannot be written.
        """
        try:
            self._write(self._directory(run) / GUARD, json.dumps(encode(report)).encode())
        except OSError as error:
            raise StepFailed(f"cannot write to the directory of run {run}: {error}") from error

    def read_guard(self, run: RunId) -> GuardReport:
        """What was noted when the plan of a run was handed over; nothing, if it was not, or cannot be read."""
        try:
            return decode(GuardReport, json.loads(self._read(self._directory(run) / GUARD)))
        except (OSError, ValueError, CodecError):
            return GuardReport()

    def handing_over(self, run: RunId) -> bool:
        """Whether the plan of a run was at least about to be handed over."""
        return exists(self._directory(run) / GUARD, self._disk)

    def rescue(self, run: RunId) -> Rescue:
        """How far the rescue script has come with a run; a word cut off by a crash means that it began."""
        try:
            word = self._read(self._directory(run) / RESCUE).decode(errors="replace").strip()
        except FileNotFoundError:
            return Rescue.NONE
        return Rescue.DONE if word == Rescue.DONE else Rescue.BEGUN

    def go_on(self, run: RunId) -> bool:
        """Whether somebody wants the old kubelet to be started on a runtime that lost pods."""
        return exists(self._directory(run) / GO_ON, self._disk)

    def beat(self, run: RunId) -> None:
        """Show the rescue script that an executor lives which has nothing to write."""
        with suppress(OSError):
            os.utime(self._directory(run) / JOURNAL)

    def retire(self) -> None:
        """Remove the oldest finished runs beyond those that are kept; a damaged one is kept for a human.

        Of those that are kept, give up the reserve and the before-images that a killed executor, or an earlier version
        of this program, did not.
        """
        finished = [run for run in self._runs() if self._is_finished(run)]
        for run in finished:
            drop_reserve(self._directory(run) / JOURNAL, disk=self._disk)
            with suppress(StepFailed):
                scrub(self._directory(run) / JOURNAL, disk=self._disk)
        for run in finished[: max(0, len(finished) - self._kept)]:
            with suppress(OSError):
                self._forget(self._directory(run))

    def _ask(self, run: RunId, question: str) -> None:
        path = self._directory(run) / question
        with suppress(OSError):  # unasked, nobody answers
            if not exists(path, self._disk):
                self._write(path, b"")

    def _is_finished(self, run: RunId) -> bool:
        try:
            return self.read_journal(run).finished is not None
        except Inconsistent:
            return False

    def _directory(self, run: RunId) -> Path:
        if run in {"", ".", ".."} or "/" in run:
            raise Inconsistent(f"{run!r} cannot be a run because it is no plain name")
        return self._root / run

    def _runs(self) -> list[RunId]:
        """Runs that have a plan, oldest first."""
        names = self._disk.listdir(self._root) if exists(self._root, self._disk) else []
        plans = [plan for name in names if exists(plan := self._root / name / PLAN, self._disk)]
        return [RunId(p.parent.name) for p in sorted(plans, key=lambda p: (self._disk.stat(p).st_mtime_ns, p))]

    def _read(self, path: Path) -> bytes:
        return b"".join(read_chunks(path, disk=self._disk))

    def _write(self, path: Path, data: bytes) -> None:
        with fresh_beside(path, mode=0o600, disk=self._disk) as fresh:
            write_all(fresh, data, disk=self._disk)

    def _forget(self, directory: Path) -> None:
        """Remove a run; its plan first and for good, since a plan without its journal is a run not yet begun."""
        names = self._disk.listdir(directory)
        if PLAN in names:
            self._disk.unlink(directory / PLAN)
            sync_directory(directory, self._disk)
        for name in sorted({*names} - {PLAN}):
            self._disk.unlink(directory / name)
        self._disk.rmdir(directory)


def _checksum(document: object) -> str:
    body = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(body.encode()):08x}"
