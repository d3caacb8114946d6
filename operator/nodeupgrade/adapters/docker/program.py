"""Runs dockerd's program to get its version, and what it says to its configuration; starts no daemon."""

import re

from nodeupgrade.adapters.proc.processes import NodeProgram, complaint
from nodeupgrade.domain.errors import StepFailed

VERSION = re.compile(r"version v?([^\s,]+)")
VALIDATE = "--validate"
"""Known to dockerd since 23.0."""


class DockerdProgram:
    """Runs dockerd's program.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._program = NodeProgram(prefix, timeout=timeout)

    def version(self, program: str) -> str | None:
        """Return the version of the program at that path; ``None`` if it prints none.

        Raises:
            StepFailed: the program does not end in time.
        """
        return self._program.version(program, VERSION)

    def complaint(self, command: tuple[str, ...]) -> str:
        """Return what the program says against its configuration; empty if nothing, or if it cannot be asked.

        Raises:
            StepFailed: the program does not end in time, or cannot be run.
        """
        try:
            # A program that did not know the option would not start either, but that is not worth a try.
            if VALIDATE.encode() not in self._program.run((command[0], "--help")).stdout:
                return ""
            done = self._program.run((*command, VALIDATE))
        except OSError as error:
            raise StepFailed(f"cannot run {command[0]} because {error.strerror or error}") from error
        return "" if done.returncode == 0 else complaint(done)
