"""The Kubelet port (ports.kubelet): the kubelet's health endpoint, process and program."""

import http.client
import os
import subprocess
import time
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from nodeupgrade.adapters.kubelet import identity
from nodeupgrade.adapters.kubelet.dry_run import isolated, located
from nodeupgrade.adapters.proc import INIT, ProcessTable
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.ports.kubelet import CANNOT_RUN, Answer, ServingEndpoint, TrialStart

HEALTHZ = "http://127.0.0.1:10248/healthz"
ELF = b"\x7fELF"
SYSTEMD_EXECUTOR = "systemd-executor"
"""From version 255 on, systemd runs this between its fork and the program of a unit."""


class HostKubelet:
    """The kubelet of the node that this runs on.

    Args:
        processes: the node's processes.
        healthz: URL of the health endpoint (healthzBindAddress and healthzPort in the kubelet's configuration).
        prefix: command prefix for the kubelet's program, for example ``("chroot", "/host")`` in a pod.
        healthz_timeout: seconds to wait for the health endpoint; it answers at once or not at all.
        program_timeout: seconds for the program to print its version.
        token: file with the service account's token, for requests to the kubelet's server.
        root: mount point of the node's root directory.
    """

    def __init__(
        self,
        processes: ProcessTable,
        *,
        healthz: str = HEALTHZ,
        prefix: tuple[str, ...] = (),
        healthz_timeout: float = 1.0,
        program_timeout: float = 60.0,
        token: Path = identity.TOKEN,
        root: Path = Path("/"),
    ) -> None:
        self._processes = processes
        self._healthz = urlsplit(healthz)
        self._prefix = prefix
        self._healthz_timeout = healthz_timeout
        self._program_timeout = program_timeout
        self._token = token
        self._root = root

    def healthy(self) -> bool:
        """Report whether ``/healthz`` answers ok. Proxies in the environment are ignored."""
        connection = http.client.HTTPConnection(
            self._healthz.hostname or "127.0.0.1", self._healthz.port, timeout=self._healthz_timeout
        )
        try:
            connection.request("GET", self._healthz.path)
            answer = connection.getresponse()
            return answer.status == http.client.OK and answer.read(16) == b"ok"
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def arguments(self, pid: int) -> tuple[str, ...]:
        """Return the argument vector of a running process.

        Raises:
            Transient: there is no such process, or it is ending.
        """
        arguments = self._processes.arguments(pid)
        if not arguments:
            raise Transient(f"cannot read the arguments of process {pid} because it is gone; look for the new one")
        return arguments

    def executable(self, pid: int) -> PurePosixPath | None:
        """Return the path of a running process's program; ``None`` if that file was deleted or replaced."""
        return self._processes.executable(pid)

    def environment(self, pid: int) -> dict[str, str]:
        """Return the environment variables that a running process was started with.

        Raises:
            Transient: there is no such process.
        """
        if (environment := self._processes.environment(pid)) is None:
            raise Transient(f"cannot read the environment of process {pid} because it is gone; look for the new one")
        return environment

    def started(self, pid: int) -> float:
        """Return when a running process was started, in seconds since 1970.

        It is the present time minus the age of the process, so changes to the clock since then do not distort it.

        Raises:
            Transient: there is no such process.
        """
        if (process := self._processes.process(pid)) is None:
            raise Transient(f"cannot tell when process {pid} was started because it is gone; look for the new one")
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - since_boot + process.started / os.sysconf("SC_CLK_TCK")

    def configz(self, where: ServingEndpoint) -> Answer:
        """Request ``/configz`` with the service account's token, which is sent only to the kubelet itself.

        Raises:
            Transient: there is no answer, or the server does not present one of the known certificates.
        """
        return identity.configz(where, self._token)

    def inotify_instances(self) -> int:
        """Count the inotify instances of the superuser's processes; one that several share counts once per process."""
        return self._processes.files_named("anon_inode:inotify", user=0)

    def program_stamp(self, pid: int) -> str | None:
        """Return the stamp of a running process's program; ``None`` while systemd has not executed it yet."""
        stamp = self._processes.program_stamp(pid) if pid > 0 else None
        program = self._processes.executable(pid)
        if stamp == self._processes.program_stamp(INIT) or (program is not None and program.name == SYSTEMD_EXECUTOR):
            return None
        return stamp

    def dry_run(self, binary: PurePosixPath, trial: TrialStart) -> str:
        """Return what a kubelet program prints when started in a cell (see the module of that name).

        Raises:
            StepFailed: the cell could not be made, or the program did not end in time.
        """
        return isolated(self._root, binary, trial)

    def is_elf(self, binary: PurePosixPath) -> bool:
        """Report whether a kubelet program is an ELF file; False if there is no such file.

        Raises:
            StepFailed: it cannot be read.
        """
        try:
            with located(self._root, binary).open("rb") as program:
                return program.read(len(ELF)) == ELF
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StepFailed(f"cannot read {binary}: {error.strerror or error}") from error

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version`` and return status and output; the status is 126 if it cannot be run.

        Raises:
            StepFailed: the program did not end in time.
        """
        return self._output(binary, (*arguments, "--version"))

    def _output(self, binary: PurePosixPath, arguments: tuple[str, ...]) -> tuple[int, str]:
        try:
            done = subprocess.run(
                [*self._prefix, str(binary), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._program_timeout,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{binary} {arguments[-1]} did not end within {self._program_timeout:g} s") from error
        except OSError as error:
            return CANNOT_RUN, f"cannot run {binary} because {error.strerror or error}"
        return done.returncode, done.stdout.decode(errors="replace")
