"""Runs containerd's program to get its version and configuration; needs no running daemon."""

import subprocess
import tomllib
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from nodeupgrade.domain.errors import StepFailed

Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


class Shows(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """See ContainerdProgram."""
        ...


class ContainerdProgram:
    """Runs containerd's program.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call; it usually takes 0.1.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def version(self, program: str) -> str | None:
        """Return the version of the program at that path, the third word of its output; ``None`` if it prints none.

        Raises:
            StepFailed: the program does not end in time.
        """
        try:
            done = self._run((program, "--version"))
        except OSError:
            return None
        words = done.stdout.decode(errors="replace").split()
        return words[2].removeprefix("v") if done.returncode == 0 and len(words) > 2 else None

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """Return the output of ``containerd … config dump``; ``None`` if it is not TOML.

        Args:
            command: command line that would start containerd.
            text: standard input, for ``--config /dev/stdin``.

        Raises:
            StepFailed: the program ends with an error, does not end in time, or cannot be run.
        """
        try:
            done = self._run((*command, "config", "dump"), text)
        except OSError as error:
            raise StepFailed(f"cannot run {command[0]} because {error.strerror or error}") from error
        if done.returncode != 0:
            complaint = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise StepFailed(complaint[0])
        try:
            return tomllib.loads(done.stdout.decode())
        except ValueError:
            return None

    def _run(self, words: tuple[str, ...], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [*self._prefix, *words],
                input=text,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            invocation = " ".join(words[1:][-2:])
            raise StepFailed(f"{words[0]} {invocation} did not end within {self._timeout:g} s") from error
