"""What containerd's program says by itself, without a running containerd."""

import subprocess
import tomllib

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.ports.runtime import Configuration


class Program:
    """Runs containerd's program.

    Args:
        prefix: what to put before it, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call, which takes a tenth of one.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """What ``containerd … config dump`` shows; ``None`` if it shows nothing that is TOML.

        Args:
            command: how containerd would be started.
            text: what it finds on its standard input, for ``--config /dev/stdin``.

        Raises:
            StepFailed: it ends with an error, does not end in time, or cannot be run.
        """
        try:
            done = subprocess.run(
                [*self._prefix, *command, "config", "dump"],
                input=text,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{command[0]} config dump did not end within {self._timeout:g} s") from error
        except OSError as error:
            raise StepFailed(f"cannot run {command[0]} because {error.strerror or error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise StepFailed(said[0])
        try:
            return tomllib.loads(done.stdout.decode())
        except ValueError:
            return None
