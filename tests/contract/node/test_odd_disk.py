"""What a disk says where somebody else has put something odd in place of a file: the double says what the kernel says.

Call by call, since the program tells apart what it meets by the number of the error.
"""

import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from nodeupgrade.node.host.files.system_calls import Disk
from tests.builders.as_root import AS_ROOT
from tests.doubles.node.storage.disk import Inode, ModelDisk

TARGET, BESIDE = b"other", b"beside"
HOLES = 2 * 1024**3


def _socket(path: Path) -> None:
    os.chdir(path.parent)  # its name may be longer than an address
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path.name)


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "theirs").touch()


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, HOLES)


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _modelled_directory(disk: ModelDisk, path: str) -> None:
    disk.put(f"{path}/theirs", b"")


def _made(mode: int, data: bytes = b"", *, holes: int = 0) -> Callable[[ModelDisk, str], None]:
    def make(disk: ModelDisk, path: str) -> None:
        disk.make(path, Inode(mode=mode, data=data, holes=holes))

    return make


FORMS: dict[str, tuple[Callable[[Path], object], Callable[[ModelDisk, str], None]]] = {
    "nothing": (lambda _: None, lambda _disk, _path: None),
    "a file": (lambda path: path.write_bytes(b"a file"), _made(stat.S_IFREG | 0o644, b"a file")),
    "a directory": (_directory, _modelled_directory),
    "an empty directory": (lambda path: path.mkdir(), _made(stat.S_IFDIR | 0o755)),
    "a dangling link": (_link("nowhere/at/all"), _made(stat.S_IFLNK | 0o777, b"nowhere/at/all")),
    "a link to itself": (_link("it"), _made(stat.S_IFLNK | 0o777, b"it")),
    "a link to a file": (_link("target"), _made(stat.S_IFLNK | 0o777, b"target")),
    "a link to a directory": (_link("."), _made(stat.S_IFLNK | 0o777, b".")),
    "a pipe": (os.mkfifo, _made(stat.S_IFIFO | 0o644)),
    "a socket": (_socket, _made(stat.S_IFSOCK | 0o755)),
    "a huge file": (
        _huge,
        _made(stat.S_IFREG | 0o644, holes=HOLES),
    ),
}


def _opened(flags: int) -> Callable[[Disk, PurePath], object]:
    def call(disk: Disk, path: PurePath) -> object:
        file = disk.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            status = disk.fstat(file)
            return stat.S_IFMT(status.st_mode), stat.S_ISDIR(status.st_mode) or status.st_size
        finally:
            disk.close(file)

    return call


def _read(disk: Disk, path: PurePath) -> object:
    file = disk.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return disk.read(file, 100)
    finally:
        disk.close(file)


def _kinds(call: Callable[[Disk], Callable[[PurePath], Any]]) -> Callable[[Disk, PurePath], object]:
    return lambda disk, path: stat.S_IFMT(call(disk)(path).st_mode)


def _entries(disk: Disk, path: PurePath) -> object:
    with disk.scandir(path) as found:
        return sorted((each.name, each.is_symlink()) for each in found)


CALLS: dict[str, Callable[[Disk, PurePath], object]] = {
    "lstat": _kinds(lambda disk: disk.lstat),
    "stat": _kinds(lambda disk: disk.stat),
    "stat below": lambda disk, path: disk.stat(path / "below"),
    "readlink": lambda disk, path: disk.readlink(path),
    "listdir": lambda disk, path: sorted(disk.listdir(path))[:1],
    "scandir": _entries,
    "scandir beside": lambda disk, path: _entries(disk, path.parent),
    "look": _opened(os.O_PATH | os.O_NOFOLLOW),
    "look behind": _opened(os.O_PATH),
    "open": _opened(os.O_RDONLY),
    "read": _read,
    "open unfollowed": _opened(os.O_RDONLY | os.O_NOFOLLOW),
    "open a directory": _opened(os.O_RDONLY | os.O_DIRECTORY),
    "open to write": _opened(os.O_RDWR),
    "create": _opened(os.O_RDWR | os.O_CREAT),
    "create anew": _opened(os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "mkdir": lambda disk, path: disk.mkdir(path, 0o755),
    "rmdir": lambda disk, path: disk.rmdir(path),
    "unlink": lambda disk, path: disk.unlink(path),
    "rename over": lambda disk, path: disk.rename(path.with_name("beside"), path),
    "rename": lambda disk, path: disk.rename(path, path.with_name("beside")),
    "rename to a new name": lambda disk, path: disk.rename(path, path.with_name("new")),
    "link over": lambda disk, path: disk.link(path.with_name("beside"), path),
    "link": lambda disk, path: disk.link(path, path.with_name("new")),
}
WAITS = {("a pipe", call) for call in ("open", "read", "open unfollowed")}
"""Where the kernel waits for somebody to open the other end, the double refuses to go on."""


def said(call: Callable[[Disk, PurePath], object], disk: Disk, path: PurePath) -> object:
    try:
        return call(disk, path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", CALLS)
def test_the_double_says_what_the_kernel_says(form: str, call: str, tmp_path: Path) -> None:
    real, modelled = FORMS[form]
    disk, at = ModelDisk(), PurePath("/a/it")
    for path, data in (("target", TARGET), ("beside", BESIDE)):
        (tmp_path / path).write_bytes(data)
        disk.put(f"/a/{path}", data)
    real(tmp_path / "it")
    modelled(disk, str(at))

    if (form, call) in WAITS:
        with pytest.raises(RuntimeError):
            CALLS[call](disk, at)
        return
    assert said(CALLS[call], disk, at) == said(CALLS[call], os, tmp_path / "it")
    assert sorted(disk.listdir(at.parent)) == sorted(path.name for path in tmp_path.iterdir())


def test_a_file_that_the_device_cannot_read_is_opened_and_not_read() -> None:
    disk = ModelDisk()
    disk.make("/it", Inode(mode=stat.S_IFREG | 0o644, data=b"lost", broken=True))

    unreadable = Path("/proc/self/mem")  # nothing is mapped at its beginning

    assert said(_read, disk, PurePath("/it")) == said(_read, os, unreadable) == "EIO"
    assert said(CALLS["lstat"], disk, PurePath("/it")) == said(CALLS["lstat"], os, unreadable) == stat.S_IFREG


READ_ONLY = """
import os, subprocess, sys
from pathlib import Path
from tests.contract.node.test_odd_disk import CALLS, said
at = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "none", at], check=True)
for name in ("it", "beside", "target"):
    (at / name).touch()
(at / "empty").mkdir()
subprocess.run(["mount", "-o", "remount,ro", at], check=True)
for path in ("it", "none", "empty"):
    print([(name, said(call, os, at / path)) for name, call in CALLS.items()])
"""


@AS_ROOT
def test_a_read_only_directory_can_be_read_and_not_changed(tmp_path: Path) -> None:
    """Mounted where nobody else sees it."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", READ_ONLY, str(tmp_path)]
    real = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    disk, at = ModelDisk(), PurePath("/a")
    for name in ("it", "beside", "target"):
        disk.put(str(at / name), b"")
    disk.make(str(at / "empty"), Inode(mode=stat.S_IFDIR | 0o755))
    disk.read_only.add(str(at))

    lines = [str([(n, said(call, disk, at / path)) for n, call in CALLS.items()]) for path in ("it", "none", "empty")]
    assert lines == real.stdout.splitlines()
