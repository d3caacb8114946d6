"""Tests who has locked a file, on the files of this machine."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files import host_files
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.files.locks import FileLock, parse_locks

BLOCKED = "2: -> LEASE  BREAKER   READ 7164 <none>:0 0 EOF"
OPEN_FILE = "10: OFDLCK ADVISORY  WRITE -1 07:00:1572877 0 5"


def test_every_kind_of_line_is_read() -> None:
    assert [*parse_locks(f"{BLOCKED}\n{OPEN_FILE}\n")] == [
        FileLock(pid=7164, device="<none>", inode=0),
        FileLock(pid=-1, device="07:00", inode=1572877, writes=True),
    ]


def test_a_line_that_is_not_understood_is_an_error_with_a_name(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/locks").write_text("1: FLOCK\n")

    with pytest.raises(StepFailed, match="cannot read who locks files: not a lock"):
        HostFiles(tmp_path).lockers([PurePosixPath("/x")])


def test_a_list_that_takes_long_to_read_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Any pod may have as many locks as it likes, of files of its own; the kernel's time grows with their square."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/locks").write_text(f"{OPEN_FILE}\n" * 100_000)

    with pytest.raises(StepFailed, match="cannot read /proc/locks"):
        HostFiles(tmp_path).lockers([PurePosixPath("/x")])


@pytest.mark.parametrize(
    ("access", "kind", "writes"), [("r+b", fcntl.LOCK_EX, True), ("rb", fcntl.LOCK_SH, False)], ids=["writes", "reads"]
)
def test_who_has_locked_a_file_for_writing_is_told_apart(
    tmp_path: Path, access: str, kind: int, *, writes: bool
) -> None:
    """As podman, with a lock of fcntl(2), that nobody gets who may only read the file."""
    path = tmp_path / "layers.lock"
    path.write_bytes(b"")
    name = PurePosixPath(path)
    with path.open(access) as file:
        fcntl.lockf(file, kind)
        code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX)"
        with subprocess.Popen([sys.executable, "-c", code, str(path)]) as other:
            while not any(lock.pid == other.pid for lock in parse_locks(Path("/proc/locks").read_text())):
                pass
            found = {name: (os.getpid(), other.pid)}
            try:
                assert HostFiles().lockers([name]) == found
                assert HostFiles().lockers([name], writers=False) == ({} if writes else found)
            finally:
                other.kill()


@contextmanager
def locked(path: Path) -> Iterator[tuple[int, int]]:
    """Lock a file that is only open for reading, and let another process wait for the same."""
    with path.open("rb") as reading, ExitStack() as stack:
        fcntl.flock(reading, fcntl.LOCK_EX)
        waits = stack.enter_context(subprocess.Popen(["flock", str(path), "true"]))
        stack.callback(waits.kill)
        while not any(lock.pid == waits.pid for lock in parse_locks(Path("/proc/locks").read_text())):
            pass
        yield os.getpid(), waits.pid


def test_who_has_locked_a_file_is_told_and_a_copy_in_its_place_is_free(tmp_path: Path) -> None:
    """It is enough to be allowed to read the file; the lock stays with what was there."""
    path, other = tmp_path / "meta.db", tmp_path / "other"
    path.write_bytes(b"pages")
    other.write_bytes(b"")
    path.chmod(0o640)
    name, files = PurePosixPath(path), HostFiles()
    with locked(path) as (holds, waits):
        assert files.lockers([name, PurePosixPath(other)]) == {name: (holds, waits)}

        files.copy(name, name)

        assert not files.lockers([name])
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"pages", 0o640)


def test_where_the_kernel_names_another_device_who_has_the_file_open_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on btrfs, whose subvolumes have devices of their own for stat(2)."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or os.major(memory.stat().st_dev):
        pytest.skip("no filesystem here without a device")
    path = memory / f"nodeupgrade-{os.getpid()}"
    path.write_bytes(b"")
    try:
        with locked(path) as (holds, waits):
            monkeypatch.setattr(host_files, "device_of", lambda major, _minor: f"{major:02x}:ffff")
            assert HostFiles().lockers([PurePosixPath(path)]) == {PurePosixPath(path): (holds, waits)}
            with monkeypatch.context() as other:
                other.setattr(HostFiles, "_is_same_file", lambda *_: False)
                assert not HostFiles().lockers([PurePosixPath(path)]), "another file of the same number"
    finally:
        path.unlink()


def test_a_lease_counts(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    path.write_bytes(b"")
    with path.open("rb") as reading:
        try:
            fcntl.fcntl(reading, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            if error.errno == errno.EINVAL:
                pytest.skip("no leases on this filesystem")
            raise

        assert HostFiles().lockers([PurePosixPath(path)]) == {PurePosixPath(path): (os.getpid(),)}
