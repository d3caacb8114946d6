"""Runs containerd's program to get its version and configuration; needs no running daemon."""

import re
import tomllib
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from nodeupgrade.adapters.cri.program import RuntimeProgram

Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


class Shows(Protocol):
    """A program that prints its configuration."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """See ContainerdProgram."""
        ...


class ContainerdProgram(RuntimeProgram):
    """Runs containerd's program."""

    says_version = re.compile(r"^\S+\s+\S+\s+v?(\S+)")
    """The third word."""

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
