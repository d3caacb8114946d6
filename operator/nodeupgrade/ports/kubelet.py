"""The kubelet program and process of one node."""

from pathlib import PurePosixPath
from typing import Protocol


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

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version`` and return exit status and output (both streams).

        A kubelet parses all its flags before it prints its version, so an exit status of 0 also proves that
        the program accepts the arguments.
        """
        ...
