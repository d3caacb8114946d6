"""What the runtimes that serve the CRI have in common, of the port ContainerRuntime (ports.runtime)."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from nodeupgrade.adapters.cri.client import CriClient
from nodeupgrade.adapters.cri.connection import Connection
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.domain.node.inventory import Process

INFO_LEVEL = re.compile(r'level=info|"level":"info"')
SUPPRESSED = re.compile(r"^Suppressed \d+ messages")


class CriRuntime:
    """A runtime of one node, reached through its socket.

    Args:
        socket: the runtime's socket.
        processes: the node's processes.
        metadata: metadata of every call.
        timeout: seconds for one call.
        patience: seconds for which a read is retried while the runtime is unavailable.
    """

    STOP_REQUEST: ClassVar[re.Pattern[str]]
    """Finds a request to stop or remove something in a line of the log at level info; the id is its group."""

    def __init__(
        self,
        socket: Path,
        *,
        processes: ProcessTable,
        metadata: tuple[tuple[str, str], ...] = (),
        timeout: float,
        patience: float,
    ) -> None:
        self._socket = socket
        self._connection = Connection(socket, metadata=metadata, timeout=timeout, patience=patience)
        self._cri = CriClient(self._connection)
        self._processes = processes

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        return frozenset(process for process in processes if self._processes.lives(process))

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return ``None`` if the log is inconclusive: it has no line at level info, or lines were dropped."""
        stopped: set[str] = set()
        logs_info = False
        for line in log:
            if SUPPRESSED.search(line):
                return None
            logs_info = logs_info or INFO_LEVEL.search(line) is not None
            if (found := self.STOP_REQUEST.search(line)) is not None:
                stopped.add(found.group(1))
        return frozenset(stopped) if logs_info else None

    def wait_until_answering(self, timeout: float) -> None:
        self._cri.wait_until_listing(timeout)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._connection.close()
