"""containerd's program, and the directories and the socket of the running daemon."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TypeAlias

from nodeupgrade.adapters.proc.processes import NodeProgram
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.node.runtime import TRANSIENT_UNITS, RuntimeKind, RuntimePlaces

CONFIGURATION = "config"
Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


class ContainerdProgram(NodeProgram):
    """Runs containerd's program; needs no running daemon."""

    VERSION = re.compile(r"^\S+\s+\S+\s+v?(\S+)")
    """The third word."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """Return the output of ``containerd … config dump``; ``None`` if it is not TOML.

        Args:
            command: command line that would start containerd.
            text: standard input, for ``--config /dev/stdin``.

        Raises:
            TimedOut: the program does not end in time.
            StepFailed: it ends with an error, or cannot be run.
        """
        printed = self.output((*command, "config", "dump"), text=text)
        try:
            return tomllib.loads(printed.decode())
        except ValueError:
            return None


def places(info: Mapping[str, str]) -> RuntimePlaces | None:
    """Return containerd's directories and socket as the CRI plugin reports them; ``None`` if it does not."""
    try:
        configuration = json.loads(info[CONFIGURATION])
        root, state, address = (configuration[key] for key in ("containerdRootDir", "stateDir", "containerdEndpoint"))
    except (KeyError, TypeError, ValueError):
        return None
    if not (root and state):
        return None
    # The plugin reports its own directory, which is one below containerd's.
    return RuntimePlaces(root=str(root), state=str(PurePosixPath(state).parent), address=str(address))


# What is true of containerd on every node: its unit, and the files that tune its restart.

UNIT = "containerd.service"
TUNED_CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
"""containerd's configuration during a run."""
DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-shims.conf"
"""Named to sort last: drop-ins apply in the order of their names, and the last ExecStart wins."""

CONTAINERD = RuntimeKind(
    name=SupportedRuntime.CONTAINERD,
    unit=UNIT,
    other_units=True,
    tuning=(TUNED_CONFIG, DROP_IN),
    exchangeable_socket=True,
)
