"""Runs programs of the node for their output, from an agent's pod too."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.text import lines, trimmed


@dataclass(frozen=True)
class NodeProgram:
    """Runs programs of the node."""

    VERSION: ClassVar[re.Pattern[str]]
    """Its first group is the version in the output of ``--version``."""

    prefix: tuple[str, ...] = ()  # of each command, for example ``("chroot", "/host")`` in a pod
    _: KW_ONLY
    timeout: float = 10.0  # seconds for one call, which usually takes 0.1

    def run(
        self, words: tuple[str, ...], *, text: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command line and wait for its end.

        Args:
            words: program and arguments.
            text: standard input.
            environment: added to that of this process.

        Raises:
            TimedOut: it does not end in time.
            OSError: it cannot be run.
        """
        try:
            return subprocess.run(
                [*self.prefix, *words],
                input=text,
                capture_output=True,
                timeout=self.timeout,
                check=False,
                cwd="/",
                env={**os.environ, **(environment or {})},
            )
        except subprocess.TimeoutExpired as error:
            invocation = " ".join(words[1:][-2:])
            raise TimedOut(f"{words[0]} {invocation} did not end within {self.timeout:g} s") from error

    def version(self, program: str) -> str | None:
        """Return the version that a program prints; ``None`` if it prints none.

        Raises:
            TimedOut: the program does not end in time.
        """
        try:
            done = self.run((program, "--version"))
        except OSError:
            return None
        found = self.VERSION.search(done.stdout.decode(errors="replace"))
        return found[1] if done.returncode == 0 and found else None

    def output(
        self, words: tuple[str, ...], *, text: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> bytes:
        """Return what a command line that changes nothing prints on its standard output.

        Raises:
            TimedOut: it does not end in time, tried twice.
            StepFailed: it cannot be run, or ends with an error.
        """
        again = Retrying(retry=retry_if_exception_type(TimedOut), stop=stop_after_attempt(2), reraise=True)
        with translate_errors(f"cannot run {words[0]}"):
            done = again(self.run, words, text=text, environment=environment)
        if done.returncode != 0:
            raise StepFailed(failure_message(done))
        return done.stdout


def failure_message(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the last line of a failed program's standard error, or its exit status."""
    written = lines(trimmed(done.stderr.decode(errors="replace")))
    return written[-1] if written else f"status {done.returncode}"
