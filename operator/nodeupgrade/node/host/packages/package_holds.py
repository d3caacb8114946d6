"""Implements Packages: has dpkg hold and release packages, reads its files, and asks rpm for the owners of a file.

dpkg writes a new list of packages and renames it, so it may be killed at any moment.
"""

import fcntl
import os
import struct
import subprocess
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.dpkg_database import (
    DATABASE,
    LOCKS,
    PROGRAM,
    STATUS,
    UPDATES,
    DpkgState,
    Package,
    Selection,
    record_of,
)
from nodeupgrade.node.host.packages.ownership import RPM_QUERY, parse_owners
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.host.retries import retry_for, translate_errors
from nodeupgrade.text import lines, number, trimmed

SECONDS = 60.0
"""The timeout of one call, which usually takes 0.03."""
LOCKED = "locked by another process"
"""Part of the English message with which every version of dpkg reports a locked database."""
ANOTHER = "another process"
ENGLISH = {"LC_ALL": "C"}
# struct flock of 64-bit Linux: type, whence, start, length, PID.
_FLOCK = "hhqqi4x"


@dataclass(frozen=True, slots=True)
class HostPackages:
    """The package managers of the node whose root directory is mounted at the root of ``files``."""

    files: HostFiles
    processes: ProcessTable
    _: KW_ONLY
    prefix: tuple[str, ...] = ()  # of commands, for example ``("chroot", "/host")`` in a pod
    admindir: PurePosixPath = DATABASE  # the database, as a program that is run with this prefix sees it
    patience: float = 10.0  # seconds for which a call is repeated while the database is locked

    def rpm_owners(self, path: PurePosixPath) -> tuple[str, ...] | None:
        try:
            done = self._run((*RPM_QUERY, str(path)))
        except (OSError, StepFailed):
            return None
        output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return parse_owners(path, done.returncode, output, errors)

    def state(self) -> DpkgState:
        return DpkgState(
            runs=self.files.executable(PROGRAM),
            interrupted=any(number(path.name) is not None for path in self.files.list(UPDATES)),
            user=self._user(),
        )

    def selection(self, package: Package) -> Selection | None:
        found = record_of(self.files.read(STATUS) or b"", package.name, package.architecture)
        return None if found is None else found.selection

    def select(self, package: Package, selection: Selection) -> None:
        """Have dpkg record a selection, and read it back: dpkg reports no error for a name that it does not know."""
        retry_for(lambda: self._select(package, selection), self.patience, pause=0.5)
        if (found := self.selection(package)) != selection:
            raise StepFailed(f"dpkg has {found or 'nothing'} on record for {package.specific} instead of {selection}")

    def _select(self, package: Package, selection: Selection) -> None:
        words = (str(PROGRAM), f"--admindir={self.admindir}", "--set-selections")
        text = f"{package.specific} {selection}\n".encode()
        with translate_errors(f"cannot run {PROGRAM}"):
            done = self._run(words, text)
        if done.returncode == 0:
            return
        said = next(iter(lines(trimmed(done.stderr.decode(errors="replace")))), f"status {done.returncode}")
        if LOCKED in said:
            raise Transient(f"{self._user() or ANOTHER} is using the database of dpkg and has locked it")
        raise StepFailed(f"dpkg does not set {package.specific} to {selection}: {said}")

    def _run(self, words: tuple[str, ...], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return NodeProgram(self.prefix, timeout=SECONDS).run(words, text=text, environment=ENGLISH)

    def _user(self) -> str:
        """Return the process that uses the database; empty if none does."""
        return next(filter(None, map(self._holder, LOCKS)), "")

    def _holder(self, lock: PurePosixPath) -> str:
        """Return the process that has locked a file; empty if none has. The lock is not taken."""
        with translate_errors(f"cannot find out which process has locked {lock}"):
            try:
                descriptor = os.open(self.files.seen(lock), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                return ""
            try:
                asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
            finally:
                os.close(descriptor)
        if kind == fcntl.F_UNLCK:
            return ""
        stat = self.processes.stat(pid)  # PID 0: in another PID namespace
        return ANOTHER if stat is None else f"{stat.command} (process {pid})"
