"""What the shield's process tells the executor: the refused calls, one line each, and how many calls wait."""

import json
import os
from pathlib import Path

from nodeupgrade.api.encoding.json import MalformedFileError, from_json, to_json
from nodeupgrade.domain.node.shield import REFUSED, WAITING, RefusedCall


class WaitingCalls:
    """The number of calls that are held back: the size of an empty file, so that it is written by one system call.

    Args:
        state: directory of the file; does not outlive the boot.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / WAITING.name

    def set(self, number: int) -> None:
        """Write it down.

        Raises:
            OSError: it cannot be written.
        """
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, number)
        finally:
            os.close(descriptor)

    def get(self) -> int:
        """Return it."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


class Refusals:
    """The refused calls since the node's boot.

    Args:
        state: directory of the log; does not outlive the boot.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / REFUSED.name
        self._size = 0
        self._read: tuple[RefusedCall, ...] = ()

    def add(self, call: RefusedCall) -> None:
        """Append a call.

        Raises:
            OSError: it cannot be written.
        """
        append(self._path, json.dumps(to_json(call, strict=True)).encode() + b"\n")

    def all(self) -> tuple[RefusedCall, ...]:
        """Return the calls, oldest first; reads the log only if it has grown."""
        try:
            if (size := self._path.stat().st_size) != self._size:
                lines = self._path.read_bytes()[:size].splitlines(keepends=True)
                self._read, self._size = tuple(_parsed(line) for line in lines if line.endswith(b"\n")), size
        except FileNotFoundError:
            return ()
        return self._read


def append(path: Path, data: bytes) -> None:
    """Append to a file by a single write, so that lines of several writers never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _parsed(line: bytes) -> RefusedCall:
    """Parse a line. One that cannot be read still says that something was refused."""
    try:
        return from_json(RefusedCall, json.loads(line), strict=True)
    except (ValueError, MalformedFileError):
        text = line.decode(errors="replace").strip()
        return RefusedCall(at="", monotonic=0.0, method="", instance="", label=text, wanted="unreadable:")
