"""Messages between agent, executor, rescue script and people about a run: one file for each message.

Files are written atomically. A missing file just means that there is no message, so each side may start late or never.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from nodeupgrade.adapters.files.atomic import exists, fresh_beside, read_chunks, write_all
from nodeupgrade.api.encoding.json import MalformedFileError, from_json, to_json
from nodeupgrade.api.task.status import GuardReport
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.domain.errors import Inconsistent, StepFailed
from nodeupgrade.domain.node.evidence.shown import GO_ON
from nodeupgrade.domain.node.plan import Newcomers
from nodeupgrade.domain.node.run.rescue_script import Rescue
from nodeupgrade.ports.node.disk import Disk

JOURNAL = "journal"
ABORT = "abort"
TROUBLE = "trouble"
DELETED = "deleted-pods"
DELETIONS_WANTED = "deleted-pods.wanted"
NEWCOMERS = "newcomers.json"
NEWCOMERS_WANTED = "newcomers.wanted"
RESCUE = "rescue"
GUARD = "guard"


class RunMessages:
    """The messages in the directories of runs.

    Args:
        root: parent of these directories.
        disk: receives the system calls.
    """

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    def report_trouble(self, run: RunId, message: str) -> None:
        """Record why the executor stopped before the end of the run."""
        self._write(self._root / run / TROUBLE, message.encode())

    def trouble(self, run: RunId) -> str | None:
        """Return why the executor stopped before the end of the run; ``None`` if it did not."""
        try:
            return self._read(self._root / run / TROUBLE).decode(errors="replace")
        except FileNotFoundError:
            return None

    def request_abort(self, run: RunId) -> None:
        """Ask the executor of a run to roll back."""
        self._write(self._directory(run) / ABORT, b"")

    def abort_requested(self, run: RunId) -> bool:
        """Report whether a rollback was requested."""
        return exists(self._directory(run) / ABORT, self._disk)

    def report_deleted(self, run: RunId, pods: Iterable[PodUid]) -> None:
        """Report to the executor which pods have been deleted since the run began; each call adds to earlier ones."""
        known = self.deleted_pods(run)
        if not known.issuperset(pods):
            self._write(self._directory(run) / DELETED, "\n".join(sorted(known.union(pods))).encode())

    def ask_for_deleted_pods(self, run: RunId) -> frozenset[PodUid]:
        """Ask the agent which pods have been deleted since the run began; return its answers so far."""
        self._ask(run, DELETIONS_WANTED)
        return self.deleted_pods(run)

    def deleted_pods_wanted(self, run: RunId) -> bool:
        """Report whether the executor has asked which pods have been deleted."""
        return exists(self._directory(run) / DELETIONS_WANTED, self._disk)

    def deleted_pods(self, run: RunId) -> frozenset[PodUid]:
        """Return the pods that were deleted since the run began, as reported by the agent so far."""
        try:
            lines = self._read(self._directory(run) / DELETED).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return frozenset()
        return frozenset(PodUid(line) for line in lines)

    def report_newcomers(self, run: RunId, newcomers: Newcomers) -> None:
        """Report to the executor which pods were created after planning; each call replaces the last."""
        if newcomers != self.newcomers(run):
            self._write(self._directory(run) / NEWCOMERS, json.dumps(to_json(newcomers, strict=True)).encode())

    def ask_for_newcomers(self, run: RunId) -> Newcomers | None:
        """Ask the agent which pods were created after planning; return its latest answer."""
        self._ask(run, NEWCOMERS_WANTED)
        return self.newcomers(run)

    def newcomers_wanted(self, run: RunId) -> bool:
        """Report whether the executor has asked which pods were created after planning."""
        return exists(self._directory(run) / NEWCOMERS_WANTED, self._disk)

    def newcomers(self, run: RunId) -> Newcomers | None:
        """Return the agent's latest report of pods created after planning; ``None`` if none can be read."""
        try:
            return from_json(Newcomers, json.loads(self._read(self._directory(run) / NEWCOMERS)), strict=True)
        except (OSError, ValueError, MalformedFileError):
            return None

    def write_guard(self, run: RunId, report: GuardReport) -> None:
        """Record the state of the readiness guard, right before a plan is handed over.

        Raises:
            StepFailed: the file cannot be written.
        """
        try:
            self._write(self._directory(run) / GUARD, json.dumps(to_json(report, strict=True)).encode())
        except OSError as error:
            raise StepFailed(f"cannot write to the directory of run {run}: {error}") from error

    def read_guard(self, run: RunId) -> GuardReport:
        """Return the guard's state as recorded at the handover of a plan; empty if there is none that is readable."""
        try:
            return from_json(GuardReport, json.loads(self._read(self._directory(run) / GUARD)), strict=True)
        except (OSError, ValueError, MalformedFileError):
            return GuardReport()

    def handing_over(self, run: RunId) -> bool:
        """Report whether the plan of a run was handed over, or was about to be."""
        return exists(self._directory(run) / GUARD, self._disk)

    def rescue(self, run: RunId) -> Rescue:
        """Return how far the rescue script has come with a run; a word truncated by a crash means that it began."""
        try:
            word = self._read(self._directory(run) / RESCUE).decode(errors="replace").strip()
        except FileNotFoundError:
            return Rescue.NONE
        return Rescue.DONE if word == Rescue.DONE else Rescue.BEGUN

    def go_on(self, run: RunId) -> bool:
        """Report whether a person asked to start the old kubelet on a runtime that lost pods."""
        return exists(self._directory(run) / GO_ON, self._disk)

    def beat(self, run: RunId) -> None:
        """Show the rescue script that the executor is alive while it has nothing to write."""
        with suppress(OSError):
            os.utime(self._directory(run) / JOURNAL)

    def _ask(self, run: RunId, question: str) -> None:
        path = self._directory(run) / question
        with suppress(OSError):  # an unwritten question just gets no answer
            if not exists(path, self._disk):
                self._write(path, b"")

    def _directory(self, run: RunId) -> Path:
        if run in {"", ".", ".."} or "/" in run:
            raise Inconsistent(f"{run!r} cannot be a run because it is no plain name")
        return self._root / run

    def _read(self, path: Path) -> bytes:
        return b"".join(read_chunks(path, disk=self._disk))

    def _write(self, path: Path, data: bytes) -> None:
        with fresh_beside(path, mode=0o600, disk=self._disk) as fresh:
            write_all(fresh, data, disk=self._disk)
