"""Messages between agent, executor, rescue script and people about a run: one file for each message.

Files are written atomically. A missing file means that there is no message, so each side may start late or never.
"""

import json
import os
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from nodeupgrade.api.json import MalformedFileError, from_json, to_json
from nodeupgrade.api.task.status import GuardReport
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.host.files.atomic import exists, fresh_beside, write_all
from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.node.journal.run_store import END, GO_ON, JOURNAL, KUBELET, RESCUE, TROUBLE, Rescue, volatile
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.plan import Newcomers, ShownKubelet
from nodeupgrade.text import parse_json, trimmed

M = TypeVar("M")

ABORT = "abort"
OWNER_CHANGES = "owner-changes.json"
OWNER_CHANGES_WANTED = "owner-changes.wanted"
NEWCOMERS = "newcomers.json"
NEWCOMERS_WANTED = "newcomers.wanted"
ARRIVALS = "arrivals.json"
PLANNED_ARRIVALS = "planned-arrivals.json"
GUARD = "guard"
LARGEST_MESSAGE = 8 * 1024**2
"""Bytes. Far above what is said of all containers of a node."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages about the runs in one directory."""

    root: Path  # the directory, as this process sees it; created when needed, readable by root only
    _: KW_ONLY
    disk: Disk = os  # receives the system calls
    mount: Path = Path("/")  # mount point of the node's root directory

    def report_trouble(self, run: RunId, message: str) -> None:
        report = message.encode(errors="backslashreplace")
        try:
            self._write(self.root / run / TROUBLE, report)
        except OSError:  # an executor that ends otherwise than for a person is started again, each second
            with suppress(OSError):
                self._write(self._volatile(TROUBLE, run), report)

    def trouble(self, run: RunId) -> str | None:
        try:
            return self._read(path := self.root / run / TROUBLE).decode(errors="replace")
        except FileNotFoundError:
            with suppress(OSError):
                return self._read(self._volatile(TROUBLE, run)).decode(errors="replace")
            return None
        except OSError as error:
            return f"its reason cannot be read: {self._why(path, error)}"

    def request_abort(self, run: RunId) -> None:
        self._write(self._directory(run) / ABORT, b"")

    def abort_requested(self, run: RunId) -> bool:
        return self._is_there(self._directory(run) / ABORT)

    def report_owner_changes(self, run: RunId, changes: Evidence) -> None:
        known = self.owner_changes(run)
        if (together := changes.and_before(known)) != known:
            self._write(self._directory(run) / OWNER_CHANGES, json.dumps(to_json(together, strict=True)).encode())

    def ask_for_owner_changes(self, run: RunId) -> Evidence:
        self._ask(run, OWNER_CHANGES_WANTED)
        return self.owner_changes(run)

    def owner_changes_wanted(self, run: RunId) -> bool:
        return exists(self._directory(run) / OWNER_CHANGES_WANTED, self.disk)

    def owner_changes(self, run: RunId) -> Evidence:
        """Return what owners have changed since the run was planned, as reported by the agent so far."""
        return self._message(self._directory(run) / OWNER_CHANGES, Evidence) or Evidence()

    def report_newcomers(self, run: RunId, newcomers: Newcomers) -> None:
        if newcomers != self.newcomers(run):
            self._write(self._directory(run) / NEWCOMERS, json.dumps(to_json(newcomers, strict=True)).encode())

    def ask_for_newcomers(self, run: RunId) -> Newcomers | None:
        self._ask(run, NEWCOMERS_WANTED)
        return self.newcomers(run)

    def newcomers_wanted(self, run: RunId) -> bool:
        return exists(self._directory(run) / NEWCOMERS_WANTED, self.disk)

    def newcomers(self, run: RunId) -> Newcomers | None:
        """Return the agent's latest report of pods created after planning; ``None`` if none can be read."""
        return self._message(self._directory(run) / NEWCOMERS, Newcomers)

    def ask_for_plan(self, run: RunId, arrivals: Arrivals) -> PlannedArrivals | None:
        if arrivals != self.arrivals(run):
            with suppress(OSError):  # an unwritten question gets no answer
                self._write(self._directory(run) / ARRIVALS, json.dumps(to_json(arrivals, strict=True)).encode())
        return self._message(self._directory(run) / PLANNED_ARRIVALS, PlannedArrivals)

    def arrivals(self, run: RunId) -> Arrivals | None:
        return self._message(self._directory(run) / ARRIVALS, Arrivals)

    def report_planned(self, run: RunId, planned: PlannedArrivals) -> None:
        self._write(self._directory(run) / PLANNED_ARRIVALS, json.dumps(to_json(planned, strict=True)).encode())

    def report_kubelet(self, run: RunId, shown: ShownKubelet) -> None:
        report = json.dumps(to_json(shown, strict=True)).encode()
        try:
            self._write(self._directory(run) / KUBELET, report)
        except OSError:  # a disk that is full since is no reason to turn back
            self._write(self._volatile(KUBELET, run), report)

    def shown_kubelet(self, run: RunId) -> ShownKubelet | None:
        """Return the agent's latest report of the kubelet that the API server shows; ``None`` if none can be read."""
        places = (self._directory(run) / KUBELET, self._volatile(KUBELET, run))
        found = (self._message(path, ShownKubelet) for path in places)
        return max(filter(None, found), key=lambda shown: shown.at, default=None)

    def write_guard(self, run: RunId, report: GuardReport) -> None:
        with translate_errors(f"cannot write to the directory of run {run}"):
            self._write(self._directory(run) / GUARD, json.dumps(to_json(report, strict=True)).encode())

    def read_guard(self, run: RunId) -> GuardReport:
        return self._message(self._directory(run) / GUARD, GuardReport) or GuardReport()

    def handing_over(self, run: RunId) -> bool:
        return exists(self._directory(run) / GUARD, self.disk)

    def rescue(self, run: RunId) -> Rescue:
        """Return the rescue script's progress; a word that a crash truncated means that it began."""
        words = set()
        for path in (self._directory(run) / RESCUE, self._volatile(RESCUE, run)):
            try:
                words.add(trimmed(self._read(path).decode(errors="replace")))
            except FileNotFoundError:
                continue
            except OSError:
                words.add(Rescue.UNREADABLE.value)
        if not words:
            return Rescue.NONE
        if words == {Rescue.UNREADABLE.value}:
            return Rescue.UNREADABLE
        return Rescue.DONE if Rescue.DONE.value in words else Rescue.BEGUN

    def go_on(self, run: RunId) -> bool:
        return self._is_there(self._directory(run) / GO_ON)

    def end(self, run: RunId) -> bool:
        return self._is_there(self._directory(run) / END)

    def beat(self, run: RunId) -> None:
        with suppress(OSError):
            os.utime(self._directory(run) / JOURNAL)

    def _is_there(self, path: Path) -> bool:
        """Report whether somebody has left a word; what cannot be looked at is none, and ends no executor."""
        with suppress(OSError):
            return exists(path, self.disk)
        return False

    def _message(self, path: Path, kind: type[M]) -> M | None:
        """Return a message that is a value; ``None`` if none can be read."""
        try:
            return from_json(kind, parse_json(read_file(path, limit=LARGEST_MESSAGE, disk=self.disk)), strict=True)
        except (OSError, ValueError, MalformedFileError):
            return None

    def _ask(self, run: RunId, question: str) -> None:
        path = self._directory(run) / question
        with suppress(OSError):  # an unwritten question gets no answer
            if not exists(path, self.disk):
                self._write(path, b"")

    def _directory(self, run: RunId) -> Path:
        if run in {"", ".", ".."} or "/" in run:
            raise Inconsistent(f"{run!r} cannot be a run because it is not a plain file name")
        return self.root / run

    def _volatile(self, message: str, run: RunId) -> Path:
        return self._mounted(volatile(message, run))

    def _mounted(self, path: PurePosixPath) -> Path:
        return self.mount / path.relative_to("/")

    def _read(self, path: Path) -> bytes:
        return read_file(path, disk=self.disk)

    def _why(self, path: Path, error: OSError) -> str:
        """Return why a file cannot be read, and its path on the node."""
        return f"{error.strerror or error} ({PurePosixPath('/') / path.relative_to(self.mount)})"

    def _write(self, path: Path, data: bytes) -> None:
        with fresh_beside(path, mode=0o600, disk=self.disk) as fresh:
            write_all(fresh, data, disk=self.disk)
