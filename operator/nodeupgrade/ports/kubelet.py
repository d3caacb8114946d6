"""The kubelet program and process of one node, and what its credentials are good for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.json import Json

CANNOT_RUN = 126
"""Exit status of a program that is there but cannot be run, as a shell and chroot report it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: the status of HTTP, and the text."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEndpoint:
    """Where a kubelet serves, and the certificates by which it is known.

    Attributes:
        certificates: in PEM; whoever shows none of them is not the kubelet.
    """

    address: str
    port: int
    certificates: bytes


class Kubelet(Protocol):
    """Asks a kubelet, running or not."""

    def healthy(self) -> bool:
        """Whether ``/healthz`` of the running kubelet answers ok now."""
        ...

    def arguments(self, pid: int) -> tuple[str, ...]:
        """Argument vector of a running process.

        Raises:
            Transient: there is no such process.
        """
        ...

    def executable(self, pid: int) -> PurePosixPath | None:
        """Real path of a running process' program; ``None`` when the file was deleted or replaced."""
        ...

    def environment(self, pid: int) -> Mapping[str, str]:
        """Variables that a running process was started with.

        Raises:
            Transient: there is no such process.
        """
        ...

    def started(self, pid: int) -> float:
        """When a running process was started, in seconds since 1970 by the clock as it is now.

        Raises:
            Transient: there is no such process.
        """
        ...

    def configz(self, where: ServingEndpoint) -> Answer:
        """What the running kubelet says that it is configured to do, asked with this program's own credentials.

        Raises:
            Transient: it does not answer, or it cannot be told that it is the kubelet who does.
        """
        ...

    def program_stamp(self, pid: int) -> str | None:
        """The stamp, as of ports.files, of the program that a process runs, wherever its file is by now.

        ``None`` when there is no such process, or its own program is yet to come.
        """
        ...

    def gates_output(self, binary: PurePosixPath, gates: Mapping[str, bool]) -> str:
        """What a program prints when it is to start with these feature gates, and a configuration that is not there.

        A kubelet judges its feature gates before it reads its configuration, and ends if that is missing. So nothing
        is ever started, and it complains about a gate if and only if it would not start because of it (seen with
        1.15 to 1.33).
        """
        ...

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version`` and return exit status (or CANNOT_RUN) and output (both streams).

        A kubelet parses all its flags before it prints its version, so an exit status of 0 also proves that
        the program accepts the arguments.
        """
        ...


class AsKubelet(Protocol):
    """The API server, asked as the node's own kubelet would ask it."""

    def read(self, path: str) -> Answer:
        """Read an object (``path`` below the server).

        Raises:
            Transient: there is no answer.
        """
        ...

    def try_patch(self, path: str, patch: Json) -> Answer:
        """Ask what would come of a strategic merge patch of an object (``path`` below the server); nothing is changed.

        Raises:
            Transient: there is no answer.
        """
        ...
