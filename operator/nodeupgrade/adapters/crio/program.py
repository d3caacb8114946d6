"""Runs CRI-O's program to get its version and configuration; needs no running daemon."""

import re
from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.adapters.cri.program import RuntimeProgram

PASSED_ON = re.compile(r"CONTAINER_\w+")
"""Environment variables that set flags."""


class PrintsConfiguration(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """See CrioProgram."""
        ...


class CrioProgram(RuntimeProgram):
    """Runs CRI-O's program."""

    says_version = re.compile(r"version[: ]+v?(\d+\.\d+\.\d+\S*)", re.IGNORECASE)

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """Return the output of ``crio … config``.

        Args:
            command: command line that would start CRI-O.
            environment: of the running CRI-O; only what sets flags is passed on.

        Raises:
            StepFailed: the program ends with an error, does not end in time, or cannot be run.
        """
        given = {name: value for name, value in environment.items() if PASSED_ON.fullmatch(name)}
        return self._program.output((*command, "config"), environment=given).decode(errors="replace")
