"""Implements Kubelet: the health endpoint, process and program of a node's kubelet."""

import base64
import codecs
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.files.reading import LARGEST_PROGRAM, chunks_of, opened
from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.host.processes.tcp_listeners import ListeningSocket, is_accepted, listening_sockets
from nodeupgrade.node.running_kubelet import isolation
from nodeupgrade.node.running_kubelet.configz import TOKEN, fetch_configz
from nodeupgrade.node.running_kubelet.kubelet import CANNOT_RUN, Answer, ServingEndpoint, TrialStart
from nodeupgrade.node.running_kubelet.limit_trials import used_up_limit
from nodeupgrade.node.running_kubelet.taken_ports import Listener, is_taken_by
from nodeupgrade.text import one_line, trimmed

HEALTHZ = "http://127.0.0.1:10248/healthz"
HEALTHY = re.compile(rb"HTTP/1\.[01] 200 .*\r\n\r\nok", re.DOTALL)
LARGEST_HEALTH = 4096
"""Bytes. A kubelet answers with 150."""
OWNERS_SECONDS = 3.0
"""How long to look for who has a port, of which only a message depends."""
ELF = b"\x7fELF"
SECONDS = 20
"""How long a kubelet in a dry run may take; it takes less than one."""
GRACE_SECONDS = 10.0
SYSTEMD_EXECUTOR = "systemd-executor"
"""From version 255 on, systemd runs this between its fork and the program of a unit."""

codecs.lookup("idna")
"""Loaded now: it is used for the first time with the kubelet down, when the executor's bundle may be unreadable."""


@dataclass(frozen=True, slots=True)
class HostKubelet:
    """The kubelet of the node that this runs on."""

    processes: ProcessTable  # the node's
    _: KW_ONLY
    healthz: str = HEALTHZ  # URL of its health endpoint (healthzBindAddress and healthzPort in its configuration)
    prefix: tuple[str, ...] = ()  # of commands that run its program, for example ``("chroot", "/host")`` in a pod
    healthz_timeout: float = 1.0  # seconds to wait for the health endpoint; it answers at once or not at all
    program_timeout: float = 60.0  # seconds for the program to print its version
    token: Path = TOKEN  # file with the service account's token, for requests to the kubelet's server
    root: Path = Path("/")  # mount point of the node's root directory

    def healthy(self) -> bool:
        """Anybody may listen at the endpoint while no kubelet does, so the time for all of the answer is limited."""
        url, end = urlsplit(self.healthz), time.monotonic() + self.healthz_timeout
        request = f"GET {url.path} HTTP/1.0\r\nHost: {url.netloc}\r\n\r\n".encode()
        answer = b""
        try:
            with socket.create_connection((url.hostname, url.port), self.healthz_timeout) as connection:
                connection.sendall(request)
                while (left := end - time.monotonic()) > 0 and len(answer) < LARGEST_HEALTH:
                    connection.settimeout(left)
                    if not (data := connection.recv(LARGEST_HEALTH)):
                        return HEALTHY.fullmatch(answer) is not None
                    answer += data
        except OSError:
            pass
        return False

    def diverted(self) -> bool:
        """Ask the kernel who listens, and for the other end of a connection."""
        url = urlsplit(self.healthz)
        with suppress(OSError), self._network() as network:
            if not (listening := self._at_health(network)):
                return False
            try:
                with socket.create_connection((url.hostname, url.port), self.healthz_timeout) as connection:
                    return not is_accepted(network, at=url.port or 0, by=connection.getsockname()[1])
            except (ConnectionError, TimeoutError):  # one that has begun or ceased to listen since is reached
                still = {each.inode for each in self._at_health(network) if not each.full}
                return any(each.inode in still for each in listening)
        return False

    def _at_health(self, network: int) -> tuple[ListeningSocket, ...]:
        """Return who listens where the health endpoint is, and not at the same port of another address."""
        url = urlsplit(self.healthz)
        found = (each for each in listening_sockets(network) if each.port == url.port)
        return tuple(each for each in found if is_taken_by(url.hostname or "", each.address))

    def listeners(self, ports: Collection[int], likely: Callable[[], int]) -> tuple[Listener, ...]:
        try:
            with self._network() as network:
                found = [each for each in listening_sockets(network) if each.port in ports]
        except OSError:
            return ()
        owners = self._owners({each.inode for each in found}, likely)
        return tuple(self._listener(each, owners.get(each.inode)) for each in found)

    @contextmanager
    def _network(self) -> Iterator[int]:
        """Yield a descriptor of the node's network namespace."""
        network = self.processes.open_network(INIT)
        try:
            yield network
        finally:
            os.close(network)

    def _owners(self, sockets: set[int], likely: Callable[[], int]) -> dict[int, int]:
        """Return the process that has each socket, as far as one is found; no longer than a kubelet can be down for.

        Pods may have thousands of processes with tens of thousands of descriptors each.
        """
        found: dict[int, int] = {}
        end = time.monotonic() + OWNERS_SECONDS
        for pid in chain([likely()], self.processes.pids()) if sockets else ():
            found.update(dict.fromkeys(self.processes.sockets(pid) & (sockets - found.keys()), pid))
            if len(found) == len(sockets) or time.monotonic() >= end:
                break
        return found

    def _listener(self, found: ListeningSocket, pid: int | None) -> Listener:
        known = None
        with suppress(OSError, ValueError):  # it may end meanwhile
            known = None if pid is None else self.processes.stat(pid)
        unit = "" if pid is None else next(reversed(self.processes.units(pid)), "")
        who = "" if known is None else one_line(known.command)
        return Listener(
            address=found.address, port=found.port, pid=pid, who=f"{who}, {one_line(unit)}" if unit else who
        )

    def arguments(self, pid: int) -> tuple[str, ...]:
        arguments = self.processes.arguments(pid)
        if not arguments:
            raise Transient(f"cannot read the arguments of process {pid} because it is gone; look for the new one")
        return arguments

    def executable(self, pid: int) -> PurePosixPath | None:
        return self.processes.executable(pid)

    def environment(self, pid: int) -> dict[str, str]:
        if (environment := self.processes.environment(pid)) is None:
            raise Transient(f"cannot read the environment of process {pid} because it is gone; look for the new one")
        return environment

    def started(self, pid: int) -> float:
        """Return the present time minus the age of the process: changes to the clock since then do not distort it."""
        if (process := self.processes.process(pid)) is None:
            raise Transient(f"cannot read when process {pid} was started because it is gone; look for the new one")
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - since_boot + process.started / os.sysconf("SC_CLK_TCK")

    def configz(self, where: ServingEndpoint) -> Answer:
        """Send the service account's token, and only to the kubelet itself."""
        return fetch_configz(where, self.token)

    def used_up_limit(self, instances: int) -> str | None:
        return used_up_limit(self.processes.root, instances)

    def program_stamp(self, pid: int) -> str | None:
        stamp = self.processes.program_stamp(pid) if pid > 0 else None
        program = self.processes.executable(pid)
        if stamp == self.processes.program_stamp(INIT) or (program is not None and program.name == SYSTEMD_EXECUTOR):
            return None
        return stamp

    def dry_run(self, binary: PurePosixPath, trial: TrialStart) -> str:
        try:
            order = {
                "root": str(self.root),
                "program": str(located(self.root, binary)),
                "words": trial.words,
                "environment": dict(trial.environment),
                "files": {path: base64.b64encode(data).decode("ascii") for path, data in trial.files.items()},
                "directories": trial.directories,
                "seconds": SECONDS,
            }
            done = subprocess.run(
                [*isolation.INTERPRETER, isolation.__file__],
                input=json.dumps(order).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS + GRACE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{binary} did not end within {SECONDS} s") from error
        except OSError as error:
            raise StepFailed(f"{binary} could not be tried: {error.strerror or error}") from error
        output = done.stdout.decode(errors="replace")
        if done.returncode == isolation.CANNOT:
            raise StepFailed(f"{binary} could not be tried: {trimmed(output)[-200:]}")
        if done.returncode < 0:
            raise StepFailed(f"{binary} did not end within {SECONDS} s")
        return output

    def is_elf(self, binary: PurePosixPath) -> bool:
        try:
            with opened(located(self.root, binary), follow=True) as program:
                return next(chunks_of(program, LARGEST_PROGRAM), b"").startswith(ELF)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StepFailed(f"cannot read {binary}: {error.strerror or error}") from error

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        try:
            done = subprocess.run(
                [*self.prefix, str(binary), *arguments, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.program_timeout,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{binary} --version did not end within {self.program_timeout:g} s") from error
        except OSError as error:
            return CANNOT_RUN, f"cannot run {binary} because {error.strerror or error}"
        return done.returncode, done.stdout.decode(errors="replace")


def located(root: Path, binary: PurePosixPath) -> Path:
    """Return where this process sees a program of the node, which may be in this very pod."""
    own = PurePosixPath(f"/proc/{os.getpid()}/root")
    return (
        Path("/") / binary.relative_to(own) if binary.is_relative_to(own) else resolve(root, binary, follow_last=True)
    )
