"""Runs the program of a container runtime; needs no running daemon."""

import re
from typing import ClassVar

from nodeupgrade.adapters.proc.processes import NodeProgram


class RuntimeProgram:
    """The program of one runtime.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call; it usually takes 0.1.

    Attributes:
        says_version: its first group is the version in what the program prints for ``--version``.
    """

    says_version: ClassVar[re.Pattern[str]]

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._program = NodeProgram(prefix, timeout=timeout)

    def version(self, program: str) -> str | None:
        """Return the version of the program at that path; ``None`` if it prints none.

        Raises:
            StepFailed: the program does not end in time.
        """
        try:
            done = self._program.run((program, "--version"))
        except OSError:
            return None
        found = self.says_version.search(done.stdout.decode(errors="replace"))
        return found[1] if done.returncode == 0 and found else None
