"""Runs CRI-O's program to get its version and configuration; needs no running daemon."""

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.domain.errors import StepFailed

VERSION = re.compile(r"version[: ]+v?(\d+\.\d+\.\d+\S*)", re.IGNORECASE)
PASSED_ON = re.compile(r"CONTAINER_\w+")
"""Environment variables that set flags."""


class PrintsConfiguration(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """See CrioProgram."""
        ...


class CrioProgram:
    """Runs CRI-O's program.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def version(self, program: str) -> str | None:
        """Return the version of the program at that path; ``None`` if it prints none.

        Raises:
            StepFailed: the program does not end in time.
        """
        try:
            done = self._run((program, "--version"), {})
        except OSError:
            return None
        found = VERSION.search(done.stdout.decode(errors="replace"))
        return found[1] if done.returncode == 0 and found else None

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """Return the output of ``crio … config``.

        Args:
            command: command line that would start CRI-O.
            environment: of the running CRI-O; only what sets flags is passed on.

        Raises:
            StepFailed: the program ends with an error, does not end in time, or cannot be run.
        """
        given = {name: value for name, value in environment.items() if PASSED_ON.fullmatch(name)}
        try:
            done = self._run((*command, "config"), given)
        except OSError as error:
            raise StepFailed(f"cannot run {command[0]} because {error.strerror or error}") from error
        if done.returncode != 0:
            complaint = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise StepFailed(complaint[0])
        return done.stdout.decode(errors="replace")

    def _run(self, words: tuple[str, ...], environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [*self._prefix, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                cwd="/",
                env={**os.environ, **environment},
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{words[0]} {words[-1]} did not end within {self._timeout:g} s") from error
