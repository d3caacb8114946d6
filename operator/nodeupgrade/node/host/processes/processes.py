"""The node's processes, as ``/proc`` shows them."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.files.files import LARGEST_READ
from nodeupgrade.node.host.files.reading import digest_of, read_file
from nodeupgrade.node.host.files.system_calls import stamp
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.text import lines, number, words

T = TypeVar("T")

INIT = 1
"""PID of the node's init process."""
UNITS = (".service", ".scope")
DELETED = " (deleted)"
ENDED = frozenset("ZXx")
"""States of a process that has ended: zombie, dead."""
MOST_DESCRIPTORS = 65_536
"""Of a process that is inspected: to read so many takes half a second, and no kubelet or runtime comes near."""
STAT_BYTES = 4096
"""More than any ``/proc/PID/stat`` contains: 52 numbers and a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The fields of ``/proc/PID/stat`` that this project needs."""

    pid: int
    command: str  # up to 15 bytes of the program's name; may contain spaces and parentheses
    state: str
    parent: int  # PID of the parent process
    threads: int  # that have not ended; the first one, of which the state is, counts as long as the process lives
    started: int  # clock ticks between boot and the start of the process

    @property
    def process(self) -> Process:
        """The identity of the process."""
        return Process(pid=self.pid, started=self.started)


def parse_stat(text: str) -> Stat:
    """Parse ``/proc/PID/stat``.

    The program's name, in parentheses, may contain spaces and parentheses: the fields after it are counted from the
    *last* closing parenthesis.

    Raises:
        ValueError: the text does not have this form.
    """
    head, _, tail = text.rpartition(")")
    first, opening, command = head.partition(" (")
    state, *rest = words(tail) or [""]
    pid, parent, threads, started = map(number, (first, *rest[:1], *rest[16:19:2], "", "", "")[:4])
    if not opening or pid is None or parent is None or threads is None or started is None:
        raise ValueError(f"not a process status line: {text[:80]!r}")
    return Stat(pid=pid, command=command, state=state, parent=parent, threads=threads, started=started)


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Processes as one mounted ``/proc`` shows them."""

    # Mount point of the node's procfs. Its PIDs belong to the PID namespace in which it was mounted, so
    # ``/proc/PID/root/proc`` shows the processes of another node under their own PIDs.
    root: Path = Path("/proc")

    def stat(self, pid: int) -> Stat | None:
        """Return the status of a process; ``None`` if there is none with this PID."""
        if pid <= 0:
            return None
        try:
            text = self._read(f"{self.root}/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return parse_stat(text.decode(errors="replace"))

    def process(self, pid: int) -> Process | None:
        """Return the identity of a process; ``None`` if there is none with this PID."""
        stat = self.stat(pid)
        return None if stat is None else stat.process

    def lives(self, process: Process) -> bool:
        """Report whether this very process still runs; a zombie does not, unless only its first thread has ended."""
        stat = self.stat(process.pid)
        return stat is not None and stat.process == process and (stat.state not in ENDED or stat.threads > 1)

    def arguments(self, pid: int) -> tuple[str, ...] | None:
        """Return the argument vector; ``None`` if there is no such process, empty for a zombie or a kernel thread."""
        if (raw := self._content(pid, "cmdline")) is None:
            return None
        parts = raw.removesuffix(b"\0").split(b"\0") if raw else []
        return tuple(part.decode(errors="surrogateescape") for part in parts)

    def environment(self, pid: int) -> dict[str, str] | None:
        """Return the environment variables that a process was started with; ``None`` if there is no such process."""
        if (raw := self._content(pid, "environ")) is None:
            return None
        pairs = (part.decode(errors="surrogateescape").partition("=") for part in raw.split(b"\0") if part)
        return {name: value for name, _, value in pairs}

    def executable(self, pid: int) -> PurePosixPath | None:
        """Return the path of a process's program; ``None`` if the process or that file is gone."""
        target = self._of_program(pid, lambda program: str(program.readlink()))
        return None if target is None or target.endswith(DELETED) else PurePosixPath(target)

    def program_stamp(self, pid: int) -> str | None:
        """Return device, inode, size and mtime of a process's program; ``None`` if it has none."""
        return self._of_program(pid, lambda program: stamp(program.stat()))

    def program_digest(self, pid: int) -> Digest | None:
        """Return the SHA-256 of a process's program, even if its file was deleted; ``None`` if it has none."""
        return self._of_program(pid, partial(digest_of, follow=True))

    def _of_program(self, pid: int, look: Callable[[Path], T]) -> T | None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            return look(self.root / str(pid) / "exe")
        return None

    def units(self, pid: int) -> tuple[str, ...]:
        """Return the systemd units that a process belongs to, by its control group, the innermost last."""
        with contextlib.suppress(OSError):
            content = read_file(self.root / str(pid) / "cgroup").decode(errors="replace")
            groups = [line.split(":", 2) for line in lines(content) if line.count(":") >= 2]
            path = next((path for _, names, path in groups if names in {"", "name=systemd"} and path != "/"), "")
            return tuple(part for part in path.split("/") if part.endswith(UNITS))
        return ()

    def _opened(self, pid: int) -> Iterator[str]:
        """Yield the targets of a process's file descriptors; none if it has ended, or may not or cannot be inspected.

        Pods may have millions of descriptors, and many such processes.
        """
        with contextlib.suppress(OSError), os.scandir(self.root / str(pid) / "fd") as opened:
            listed = [each.path for each in islice(opened, MOST_DESCRIPTORS + 1)]
            for path in listed if len(listed) <= MOST_DESCRIPTORS else ():
                with contextlib.suppress(OSError):
                    yield str(Path(path).readlink())

    def pids(self) -> tuple[int, ...]:
        """Return the PIDs of all processes."""
        found = (number(process.name) for process in self.root.iterdir())
        return tuple(sorted(pid for pid in found if pid is not None))

    def sockets(self, pid: int) -> frozenset[int]:
        """Return the inodes of the sockets that a process has open; empty if there is no such process."""
        names = (name for name in self._opened(pid) if name.startswith("socket:["))
        inodes = (number(name.removeprefix("socket:[").removesuffix("]")) for name in names)
        return frozenset(inode for inode in inodes if inode is not None)

    def text(self, pid: int, name: str, *, limit: int = LARGEST_READ) -> str:
        """Return the content of ``/proc/PID/NAME``; empty if there is no such process or file, or it is larger."""
        try:
            return read_file(self.root / str(pid) / name, limit=limit).decode(errors="surrogateescape")
        except OSError:
            return ""

    def open_network(self, pid: int) -> int:
        """Return a file descriptor of a process's network namespace.

        Raises:
            OSError: there is no such process.
        """
        with self._ending(pid):
            return os.open(self.root / str(pid) / "ns" / "net", os.O_RDONLY | os.O_CLOEXEC)

    def own_number(self, pid: int) -> int | None:
        """Return a process's PID in its own PID namespace; ``None`` if the process is not visible from here.

        Args:
            pid: its PID in our namespace. A node may have a PID namespace of its own.
        """
        try:
            status = read_file(Path(f"/proc/{pid}/status")).decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return number(words(next((line for line in lines(status) if line.startswith("NSpid:")), str(pid)))[-1])

    def network(self, pid: int) -> str | None:
        """Return the name of a process's network namespace; ``None`` if there is no such process."""
        try:
            with self._ending(pid):
                return str((self.root / str(pid) / "ns" / "net").readlink())
        except (FileNotFoundError, ProcessLookupError):
            return None

    @contextlib.contextmanager
    def _ending(self, pid: int) -> Iterator[None]:
        """Tell a process that ends meanwhile, to which the kernel denies access, from one that nobody may look at."""
        try:
            yield
        except PermissionError as error:
            if self.stat(pid) is not None:
                raise
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error

    def _content(self, pid: int, name: str) -> bytes | None:
        try:
            return read_file(self.root / str(pid) / name)
        except (FileNotFoundError, ProcessLookupError):
            return None

    def _read(self, path: str) -> bytes:
        """Read a small file. Hundreds are read while no kubelet runs, and pathlib would take twice as long."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, STAT_BYTES)
        finally:
            os.close(descriptor)

    def boot_id(self) -> str:
        """Return the kernel's random identifier of this boot."""
        return read_file(self.root / "sys/kernel/random/boot_id").decode("ascii").removesuffix("\n")
