"""What containerd's program says by itself, without a running containerd."""

import subprocess
import tomllib
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from nodeupgrade.domain.errors import StepFailed

Configuration: TypeAlias = Mapping[str, object]
"""Everything that containerd can be told, as it shows it."""


class Shows(Protocol):
    """Whoever can say what would hold for a containerd started in some way."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """See Program."""
        ...


class ContainerdProgram:
    """Runs containerd's program.

    Args:
        prefix: what to put before it, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call, which takes a tenth of one.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def version(self, program: str) -> str | None:
        """Version of the program at that path, which is the third word of what it says; ``None`` if it says none.

        Raises:
            StepFailed: it does not end in time.
        """
        try:
            done = self._run((program, "--version"))
        except OSError:
            return None
        words = done.stdout.decode(errors="replace").split()
        return words[2].removeprefix("v") if done.returncode == 0 and len(words) > 2 else None

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """What ``containerd … config dump`` shows; ``None`` if it shows nothing that is TOML.

        Args:
            command: how containerd would be started.
            text: what it finds on its standard input, for ``--config /dev/stdin``.

        Raises:
            StepFailed: it ends with an error, does not end in time, or cannot be run.
        """
        try:
            done = self._run((*command, "config", "dump"), text)
        except OSError as error:
            raise StepFailed(f"cannot run {command[0]} because {error.strerror or error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise StepFailed(said[0])
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
            asked = " ".join(words[1:][-2:])
            raise StepFailed(f"{words[0]} {asked} did not end within {self._timeout:g} s") from error
