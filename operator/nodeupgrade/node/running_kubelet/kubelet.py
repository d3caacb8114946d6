"""The ports to the kubelet of one node: its program, its process, and the API server with its credentials."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.json import Json
from nodeupgrade.node.running_kubelet.taken_ports import Listener

CANNOT_RUN = 126
"""Exit status for a program that exists but cannot be run, as reported by a shell and by chroot."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer: HTTP status and body."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEndpoint:
    """A kubelet's serving address and certificates."""

    address: str
    port: int
    certificates: bytes  # in PEM; a server that presents none of them is not the kubelet


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStart:
    """Everything that a kubelet sees in a dry run."""

    words: tuple[str, ...]  # its arguments, without the program
    environment: Mapping[str, str]  # its environment variables
    files: Mapping[str, bytes]  # content by absolute path
    directories: tuple[str, ...] = ()  # absolute paths of further directories that exist


class Kubelet(Protocol):
    """Inspects a kubelet's process, and kubelet programs that need not be running."""

    def healthy(self) -> bool:
        """Report whether ``/healthz`` of the running kubelet answers ok now."""

    def diverted(self) -> bool:
        """Report whether who connects to the health endpoint reaches another than who listens there.

        A pod's hostPort or a rule of a firewall may lead there. False if nobody listens, or that cannot be known now.
        """

    def arguments(self, pid: int) -> tuple[str, ...]:
        """Return the argument vector of a running process.

        Raises:
            Transient: there is no such process.
        """

    def executable(self, pid: int) -> PurePosixPath | None:
        """Return the real path of a running process' program; ``None`` if the file was deleted or replaced."""

    def environment(self, pid: int) -> Mapping[str, str]:
        """Return the environment that a running process was started with.

        Raises:
            Transient: there is no such process.
        """

    def started(self, pid: int) -> float:
        """Return the start time of a running process, in seconds since 1970 by the current wall clock.

        Raises:
            Transient: there is no such process.
        """

    def configz(self, where: ServingEndpoint) -> Answer:
        """Return the running kubelet's ``/configz``, requested with this program's own credentials.

        Raises:
            Transient: it does not answer, or the server cannot be identified as the kubelet.
        """

    def used_up_limit(self, instances: int) -> str | None:
        """Return the limit (see kernel_limits) that keeps a kubelet from what it needs, so many instances of inotify.

        ``None`` if none does, or that cannot be known here.
        """

    def listeners(self, ports: Collection[int], likely: Callable[[], int]) -> tuple[Listener, ...]:
        """Return who listens at TCP ports of the node; nobody, if the kernel does not tell.

        Args:
            ports: their numbers.
            likely: returns the PID that is looked at first, or 0; asked only if anybody listens.
        """

    def program_stamp(self, pid: int) -> str | None:
        """Return the stamp (see FilesView.stamp) of the program that a process runs, wherever its file is now.

        ``None`` if there is no such process, or it has not yet executed its own program.
        """

    def dry_run(self, binary: PurePosixPath, trial: TrialStart) -> str:
        """Run a kubelet for a limited time where it sees only ``trial`` and can touch nothing; return its output.

        Raises:
            StepFailed: it could not be run this way, or did not end in time.
        """

    def is_elf(self, binary: PurePosixPath) -> bool:
        """Report whether a kubelet program is an ELF file; False if there is no such file.

        Anything else that can be run, such as a script, runs as another program: its interpreter.

        Raises:
            StepFailed: it cannot be read.
        """

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version``; return the exit status (or CANNOT_RUN) and the output of both streams.

        A kubelet parses its flags before it prints its version, so an exit status of 0 proves that it accepts them.

        Raises:
            StepFailed: the program did not end in time.
        """


class AsKubelet(Protocol):
    """Talks to the API server with the credentials of the node's kubelet."""

    def read(self, path: str) -> Answer:
        """Read an object; ``path`` is below the server's URL.

        Raises:
            Transient: there is no answer.
        """

    def try_patch(self, path: str, patch: Json) -> Answer:
        """Send a strategic merge patch as a dry run, which changes nothing; ``path`` is below the server's URL.

        Raises:
            Transient: there is no answer.
        """
