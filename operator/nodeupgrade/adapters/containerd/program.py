"""Runs containerd's program to get its version and configuration; needs no running daemon."""

import re
import tomllib
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from nodeupgrade.adapters.proc.processes import NodeProgram

VERSION = re.compile(r"^\S+\s+\S+\s+v?(\S+)")
"""The third word."""
Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


class Shows(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """See ContainerdProgram."""


class ContainerdProgram:
    """Runs containerd's program.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call; it usually takes 0.1.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 10.0) -> None:
        self._program = NodeProgram(prefix, timeout=timeout)

    def version(self, program: str) -> str | None:
        """Return the version of the program at that path; ``None`` if it prints none.

        Raises:
            StepFailed: the program does not end in time.
        """
        return self._program.version(program, VERSION)

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """Return the output of ``containerd … config dump``; ``None`` if it is not TOML.

        Args:
            command: command line that would start containerd.
            text: standard input, for ``--config /dev/stdin``.

        Raises:
            StepFailed: the program ends with an error, does not end in time, or cannot be run.
        """
        printed = self._program.output((*command, "config", "dump"), text=text)
        try:
            return tomllib.loads(printed.decode())
        except ValueError:
            return None
