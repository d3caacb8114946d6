"""Runs dockerd's program to get its version, and what it says to its configuration; starts no daemon."""

import re

from nodeupgrade.adapters.cri.program import RuntimeProgram
from nodeupgrade.adapters.proc.processes import complaint
from nodeupgrade.domain.errors import StepFailed

VALIDATE = "--validate"
"""Known to dockerd since 23.0."""


class DockerdProgram(RuntimeProgram):
    """Runs dockerd's program."""

    says_version = re.compile(r"version v?([^\s,]+)")

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
