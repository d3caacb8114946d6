"""Runs programs of the node to ask them something, from within an agent's pod too."""

import os
import subprocess
from collections.abc import Mapping

from nodeupgrade.domain.errors import StepFailed


class NodeProgram:
    """Runs programs of the node.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call; those that are asked usually take 0.1.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def run(
        self, words: tuple[str, ...], *, text: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command line and wait for its end.

        Args:
            words: program and arguments.
            text: standard input.
            environment: added to that of this process.

        Raises:
            StepFailed: it does not end in time.
            OSError: it cannot be run.
        """
        try:
            return subprocess.run(
                [*self._prefix, *words],
                input=text,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                cwd="/",
                env={**os.environ, **(environment or {})},
            )
        except subprocess.TimeoutExpired as error:
            invocation = " ".join(words[1:][-2:])
            raise StepFailed(f"{words[0]} {invocation} did not end within {self._timeout:g} s") from error

    def output(
        self, words: tuple[str, ...], *, text: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> bytes:
        """Return what a command line prints on its standard output.

        Raises:
            StepFailed: it does not end in time, cannot be run, or ends with an error.
        """
        try:
            done = self.run(words, text=text, environment=environment)
        except OSError as error:
            raise StepFailed(f"cannot run {words[0]} because {error.strerror or error}") from error
        if done.returncode != 0:
            raise StepFailed(complaint(done))
        return done.stdout


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the last line that a program which failed has printed on its standard error, or its status."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"status {done.returncode}"
