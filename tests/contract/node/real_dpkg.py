"""The real dpkg as a world, on a database of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.dpkg_database import PROGRAM, STATUS, UPDATES
from nodeupgrade.node.host.packages.package_holds import HostPackages
from nodeupgrade.node.host.processes.processes import ProcessTable
from tests.contract.node.installed import INSTALLED, KUBELET

LOCK = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, 2); print(flush=True); sys.stdin.read()"
UPDATE = b"""\
Package: kubelet
Status: install ok half-configured
Maintainer: Somebody <somebody@example.com>
Architecture: amd64
Version: 1.31.1-1.1
Description: Node agent
"""


class DpkgWorld:
    """A PackagesWorld on a root directory with little more than dpkg's files; others take one of its locks."""

    package = KUBELET

    def __init__(self, root: Path, lock: PurePosixPath) -> None:
        self._root = root
        self._lock = self.at(lock)
        self.at(UPDATES).mkdir(parents=True)
        self.at(STATUS).write_bytes(INSTALLED)
        self.at(PROGRAM).parent.mkdir(parents=True)
        self.at(PROGRAM).touch(mode=0o755)
        self.packages = HostPackages(
            HostFiles(root), ProcessTable(), admindir=PurePosixPath(self.at(STATUS).parent), patience=0
        )

    def at(self, path: object) -> Path:
        return self._root / str(path).lstrip("/")

    def status(self) -> bytes:
        return self.at(STATUS).read_bytes()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        argv = [sys.executable, "-c", LOCK, str(self._lock)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
            assert user.stdin is not None
            assert user.stdout is not None
            user.stdout.readline()
            yield
            user.stdin.close()

    def interrupt(self) -> None:
        (self.at(UPDATES) / "0000").write_bytes(UPDATE)
