"""Implements ports.kubelet.Kubelet: a health endpoint, a process, a program."""

import http.client
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from nodeupgrade.adapters.kubelet import serving
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.ports.kubelet import CANNOT_RUN, Answer, ServingEndpoint

HEALTHZ = "http://127.0.0.1:10248/healthz"
NO_CONFIGURATION = "/nonexistent/nodeupgrade"
INIT = 1
SYSTEMD_EXECUTOR = "systemd-executor"
"""What systemd runs, from version 255 on, between its fork and the program of a unit."""


class HostKubelet:
    """Asks the kubelet of the node this runs on.

    Args:
        processes: the node's processes.
        healthz: URL of the health endpoint (healthzBindAddress and healthzPort in the kubelet's configuration).
        prefix: what to put before the kubelet's program, for example ``("chroot", "/host")`` in a pod.
        healthz_timeout: seconds to wait for the health endpoint; it answers at once or is not there.
        program_timeout: seconds for the program to print its version.
        token: of the service account, for asking the kubelet's own server.
    """

    def __init__(
        self,
        processes: ProcessTable,
        *,
        healthz: str = HEALTHZ,
        prefix: tuple[str, ...] = (),
        healthz_timeout: float = 1.0,
        program_timeout: float = 60.0,
        token: Path = serving.TOKEN,
    ) -> None:
        self._processes = processes
        self._healthz = urlsplit(healthz)
        self._prefix = prefix
        self._healthz_timeout = healthz_timeout
        self._program_timeout = program_timeout
        self._token = token

    def healthy(self) -> bool:
        """Whether ``/healthz`` answers ok now. No proxy is asked, whatever the environment says."""
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
        """Argument vector of a running process.

        Raises:
            Transient: there is no such process, or it is ending.
        """
        arguments = self._processes.arguments(pid)
        if not arguments:
            raise Transient(f"cannot read the arguments of process {pid} because it is gone; look for the new one")
        return arguments

    def executable(self, pid: int) -> PurePosixPath | None:
        """Path of a running process' program; ``None`` when that file was deleted or replaced."""
        return self._processes.executable(pid)

    def environment(self, pid: int) -> dict[str, str]:
        """Variables that a running process was started with.

        Raises:
            Transient: there is no such process.
        """
        if (environment := self._processes.environment(pid)) is None:
            raise Transient(f"cannot read the environment of process {pid} because it is gone; look for the new one")
        return environment

    def started(self, pid: int) -> float:
        """When a running process was started: now, less what has passed since, whatever was done to the clock.

        Raises:
            Transient: there is no such process.
        """
        if (process := self._processes.process(pid)) is None:
            raise Transient(f"cannot tell when process {pid} was started because it is gone; look for the new one")
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - since_boot + process.started / os.sysconf("SC_CLK_TCK")

    def configz(self, where: ServingEndpoint) -> Answer:
        """Ask with the service account's token, which is sent to nobody but the kubelet.

        Raises:
            Transient: nobody answers, or somebody who does not show one of the certificates.
        """
        return serving.configz(where, self._token)

    def program_stamp(self, pid: int) -> str | None:
        """The stamp of a running process' program; ``None`` while systemd has yet to execute it."""
        stamp = self._processes.program_stamp(pid) if pid > 0 else None
        program = self._processes.executable(pid)
        if stamp == self._processes.program_stamp(INIT) or (program is not None and program.name == SYSTEMD_EXECUTOR):
            return None
        return stamp

    def gates_output(self, binary: PurePosixPath, gates: Mapping[str, bool]) -> str:
        """Let a program judge feature gates; it ends for want of a configuration at the latest.

        Raises:
            StepFailed: it did not end in time.
        """
        given = ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())
        return self._output(binary, (f"--feature-gates={given}", f"--config={NO_CONFIGURATION}"))[1]

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run ``binary arguments… --version``; a program that cannot be run at all gives status 126.

        Raises:
            StepFailed: it did not end in time.
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
