"""Records of the shield's process for the executor: refused calls and waiting calls."""

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from nodeupgrade.api.json import MalformedFileError, from_json, to_json
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.shield.shield import REFUSED, WAITING, RefusedCall
from nodeupgrade.text import parse_json, trimmed

CLOCK = SystemClock(ProcessTable())


class ShieldRecords:
    """What happened since the node's boot, in files that do not outlive it.

    The number of waiting calls is the size of an empty file, so that one system call writes it. A refused call whose
    line does not fit on the disk leaves a NUL, by which an existing file can still grow: no refusal must get lost.

    Args:
        state: directory of the files.
        now: returns the present moment, which becomes the time of a refused call without a line.
    """

    def __init__(self, state: Path, now: Callable[[], AwakeTime] = CLOCK.awake) -> None:
        self._waiting, self._refused = state / WAITING.name, state / REFUSED.name
        self._now = now
        self._size = 0
        self._read: tuple[RefusedCall, ...] = ()

    def prepare(self) -> None:
        """Create the log, so that later it can grow without space, and forget the calls of a process that was killed.

        Raises:
            OSError: it cannot be created.
        """
        append(self._refused, b"")
        self.record_waiting(0)

    def record_waiting(self, number: int) -> None:
        """Record how many calls wait for an excuse.

        Raises:
            OSError: it cannot be written.
        """
        descriptor = os.open(self._waiting, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, number)
        finally:
            os.close(descriptor)

    def waiting(self) -> int:
        """Return how many calls wait for an excuse."""
        try:
            return self._waiting.stat().st_size
        except FileNotFoundError:
            return 0

    def record_refusal(self, call: RefusedCall) -> None:
        """Record a refused call, or at least that there was one.

        Raises:
            OSError: neither can be written.
        """
        try:
            append(self._refused, _line(call))
        except OSError:
            os.truncate(self._refused, self._refused.stat().st_size + 1)

    def refused(self) -> tuple[RefusedCall, ...]:
        """Return the refused calls, oldest first; reads only what was appended."""
        try:
            if self._refused.stat().st_size > self._size:
                data = read_file(self._refused)[self._size :]
                whole = data[: max(data.rfind(b"\n"), data.rfind(b"\0")) + 1]
                lines = re.split(rb"[\n\0]", whole)[:-1]
                records = {line: self._parsed(line) for line in {*lines}}  # on a full disk, most may be empty
                self._read += tuple(map(records.__getitem__, lines))
                self._size += len(whole)
        except FileNotFoundError:
            return ()
        return self._read

    def _parsed(self, line: bytes) -> RefusedCall:
        """Parse a line; one that cannot be read still proves that something was refused, some time before now."""
        try:
            return from_json(RefusedCall, parse_json(line), strict=True)
        except (ValueError, MalformedFileError):
            text = trimmed(line.decode(errors="replace"))
            why = f"the record cannot be read: {text}" if text else "there was no space for more"
            now, label = self._now().seconds, f"something ({why})"
            return RefusedCall(at="", monotonic=now, method="", instance="", label=label, wanted="end")


def _line(record: RefusedCall) -> bytes:
    return json.dumps(to_json(record, strict=True)).encode() + b"\n"


def append(path: Path, data: bytes) -> None:
    """Append to a file by a single write, so that lines of several writers never mix.

    Raises:
        OSError: not everything could be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)
