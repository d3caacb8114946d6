"""Runs CRI-O's program to get its version and configuration; needs no running daemon."""

import re
from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.adapters.proc.processes import NodeProgram

VERSION = re.compile(r"version[: ]+v?(\d+\.\d+\.\d+\S*)", re.IGNORECASE)
PASSED_ON = re.compile(r"CONTAINER_\w+")
"""Environment variables that set flags."""


class PrintsConfiguration(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """See CrioProgram."""


class CrioProgram:
    """Runs CRI-O's program.

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
