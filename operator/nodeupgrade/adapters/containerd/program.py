"""What containerd's program says by itself, without a running containerd."""

import subprocess
import tomllib

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
        """
        try:
            done = subprocess.run(
                [*self._prefix, *command, "config", "dump"],
                input=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._timeout,
                check=True,
                cwd="/",
            )
            return tomllib.loads(done.stdout.decode())
        except (OSError, subprocess.SubprocessError, ValueError):
            return None
