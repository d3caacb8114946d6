"""The runs of a node: one directory per run with its plan, its journal, and the messages about it.

Directories of the newest finished runs are kept as evidence.
"""

import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nodeupgrade.api.json import MalformedFileError, from_json, to_json
from nodeupgrade.api.task.run_id import attempt_number, task_run
from nodeupgrade.api.values import RunId
from nodeupgrade.errors import Inconsistent, StepFailed
from nodeupgrade.node.host.files.atomic import exists, make_directory, sync_directory
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.node.journal.journal import Journal
from nodeupgrade.node.journal.journal_file import FileJournal, drop_reserve, lock, read_journal, scrub
from nodeupgrade.node.journal.messages import PLANNED_ARRIVALS, Messages
from nodeupgrade.node.journal.run_store import JOURNAL, BusyError, volatile_files
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import PLAN_SCHEMA, RunPlan
from nodeupgrade.text import parse_json

PLAN = "plan.json"
UNREPORTED = "untold"
RETAINED_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore(Messages):
    """The runs in one directory. Implements AgentRuns and ExecutorRuns."""

    retained: int = RETAINED_RUNS  # how many finished runs to keep
    lock: Callable[[int], None] = lock  # locks other processes out of a journal that is being written

    def write_plan(self, plan: RunPlan) -> None:
        directory = self._directory(plan.run_id)
        document = to_json(plan, strict=True)
        sealed = {"schema": plan.schema, "checksum": _checksum(document), "plan": document}
        with translate_errors(f"cannot write the plan of run {plan.run_id}"):
            make_directory(directory, mode=0o700, disk=self.disk)
            self._write(directory / UNREPORTED, b"")
            self._write(directory / PLAN, json.dumps(sealed, indent=1).encode())

    def keep_plan(self, plan: RunPlan) -> None:
        """Without its journal no plan is written, since it would be begun once more."""
        directory = self._directory(plan.run_id)
        with suppress(OSError, StepFailed):
            if exists(directory / JOURNAL, self.disk) and not exists(directory / PLAN, self.disk):
                self.write_plan(plan)

    def read_plan(self, run: RunId) -> RunPlan | None:
        try:
            sealed = parse_json(self._read(path := self._directory(run) / PLAN))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Inconsistent(f"the plan of run {run} cannot be read: {self._why(path, error)}") from error
        except ValueError as error:
            raise Inconsistent(f"the plan of run {run} is damaged: {error}") from error
        if not isinstance(sealed, dict) or sealed.get("schema") != PLAN_SCHEMA:
            raise Inconsistent(
                f"the plan of run {run} has another schema than {PLAN_SCHEMA}: finish it with the version that made it"
            )
        if sealed.get("checksum") != _checksum(sealed.get("plan")):
            raise Inconsistent(f"the plan of run {run} is damaged: its checksum is wrong")
        try:
            plan = from_json(RunPlan, sealed["plan"], strict=True)
        except MalformedFileError as error:
            raise Inconsistent(f"the plan of run {run} cannot be read: {error}") from error
        if plan.run_id != run:
            raise Inconsistent(f"the plan of run {run} is that of {plan.run_id}")
        return plan

    def discard(self, run: RunId) -> None:
        directory = self._directory(run)
        if not exists(directory, self.disk):
            return
        try:
            with translate_errors(f"cannot remove {RUNS / run / PLAN}"), self.open_journal(run) as journal:
                # an executor that starts now finds it locked; one that starts later finds no plan
                if journal.load().records:
                    raise Inconsistent(f"run {run} has begun and cannot be discarded")
                with suppress(FileNotFoundError):
                    self.disk.unlink(directory / PLAN)
                sync_directory(directory, self.disk)
        except BusyError as error:
            raise Inconsistent(f"run {run} is just beginning and cannot be discarded") from error

    def require_plan(self, run: RunId) -> RunPlan:
        plan = self.read_plan(run)
        if plan is None:
            raise Inconsistent(f"run {run} has no plan")
        return plan

    def read_journal(self, run: RunId) -> Journal:
        """Read also what the disk did not take: nobody would learn otherwise what the executor waits for."""
        try:
            written = read_journal(path := self._directory(run) / JOURNAL, disk=self.disk)
        except OSError as error:
            raise Inconsistent(f"the journal of run {run} cannot be read: {self._why(path, error)}") from error
        if written.finished is None:
            with suppress(Inconsistent, OSError):
                copy = read_journal(self._volatile(JOURNAL, run), disk=self.disk)
                return copy if len(copy.records) > written.shared_with(copy) else written
        return written

    def open_journal(self, run: RunId, *, seize: bool = False) -> FileJournal:
        return FileJournal(self._directory(run) / JOURNAL, disk=self.disk, lock=self.lock, seize=seize)

    def unfinished(self) -> RunId | None:
        runs = (run for run in reversed(self._runs()) if self.read_journal(run).finished is None)
        return next(runs, None)

    def begun(self) -> RunId | None:
        for run in reversed(self._runs()):
            journal = self.read_journal(run)
            if journal.records and journal.finished is None:
                return run
        return None

    def begun_runs(self) -> list[RunId]:
        return [run for run in self._runs() if self.read_journal(run).records]

    def plans_not_begun(self) -> list[RunId]:
        return [run for run in self._runs() if not self.read_journal(run).records]

    def attempts(self, run: RunId) -> list[RunId]:
        return [attempt for attempt in self._runs() if task_run(attempt) == run]

    def is_reported(self, run: RunId) -> bool:
        return not exists(self._directory(run) / UNREPORTED, self.disk)

    def mark_reported(self, run: RunId) -> None:
        directory = self._directory(run)
        with translate_errors(f"cannot write to the directory of run {run}"), suppress(FileNotFoundError):
            self.disk.unlink(directory / UNREPORTED)
            sync_directory(directory, self.disk)

    def retire(self) -> None:
        """Remove the oldest finished runs beyond those to keep, of those that are reported.

        The present one is not, and may seem to be the oldest if a clock was set back. Runs with a damaged journal stay,
        for a person.

        From the others, remove what a killed executor, or an earlier version, left: the reserve, the before-images,
        and the files in ``/run``. The agent itself stops an executor that has recorded the end of its run. Its own
        answers go as well, since they may have manifests.
        """
        finished = [run for run in self._runs() if self._is_finished(run)]
        for run in finished:
            drop_reserve(self._directory(run) / JOURNAL, disk=self.disk)
            with suppress(StepFailed):
                scrub(self._directory(run) / JOURNAL, disk=self.disk)
            for path in (self._directory(run) / PLANNED_ARRIVALS, *map(self._mounted, volatile_files(run))):
                with suppress(OSError):
                    self.disk.unlink(path)
        told = [run for run in finished if self.is_reported(run)]
        for run in told[: max(0, len(finished) - self.retained)]:
            with suppress(OSError):
                self._remove(self._directory(run))

    def _is_finished(self, run: RunId) -> bool:
        try:
            return self.read_journal(run).finished is not None
        except Inconsistent:
            return False

    def _runs(self) -> list[RunId]:
        """Return the runs with a plan, oldest first; attempts at one run by number, since a clock may be set back.

        Whatever lies in the place of a plan counts as one.

        Raises:
            Inconsistent: they cannot be listed.
        """
        written = dict[RunId, int]()
        try:
            for name in self.disk.listdir(self.root) if exists(self.root, self.disk) else []:
                with suppress(FileNotFoundError, NotADirectoryError):
                    written[RunId(name)] = self.disk.lstat(self.root / name / PLAN).st_mtime_ns
        except OSError as error:
            raise Inconsistent(f"runs cannot be listed: {self._why(self.root, error)}") from error
        begun: dict[str, int] = {}
        for run, time in written.items():
            begun[_group(run)] = min(time, begun.get(_group(run), time))
        return sorted(written, key=lambda run: (begun[_group(run)], _group(run), attempt_number(run)))

    def _remove(self, directory: Path) -> None:
        """Remove a run: its plan first and durably, since a plan without a journal would be begun."""
        names = self.disk.listdir(directory)
        if PLAN in names:
            self.disk.unlink(directory / PLAN)
            sync_directory(directory, self.disk)
        for name in sorted({*names} - {PLAN}):
            self.disk.unlink(directory / name)
        self.disk.rmdir(directory)


def _group(run: RunId) -> str:
    return task_run(run) if attempt_number(run) else run


def _checksum(document: object) -> str:
    body = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(body.encode()):08x}"
