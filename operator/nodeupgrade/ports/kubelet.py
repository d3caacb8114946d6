"""The kubelet program and process of one node, and what its credentials are good for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.domain.wire import Json


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

    def gates_output(self, binary: PurePosixPath, gates: Mapping[str, bool]) -> str:
        """What a program prints when it is to start with these feature gates, and a configuration that is not there.

        A kubelet judges its feature gates before it reads its configuration, and ends if that is missing. So nothing
        is ever started, and it complains about a gate if and only if it would not start because of it (seen with
        1.15 to 1.33).
        """
        ...

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version`` and return exit status and output (both streams).

        A kubelet parses all its flags before it prints its version, so an exit status of 0 also proves that
        the program accepts the arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answered: the status of HTTP, and the text."""

    status: int
    text: str


class AsKubelet(Protocol):
    """The API server, asked as the node's own kubelet would ask it."""

    def try_patch(self, path: str, patch: Json) -> Answer:
        """Ask what would come of a strategic merge patch of an object (``path`` below the server); nothing is changed.

        Raises:
            Transient: there is no answer.
        """
        ...
