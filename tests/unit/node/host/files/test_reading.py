"""Tests that whatever lies at a path is read within bounds, or not at all."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, cast

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.files.reading import LARGEST_STATE, chunks_of, opened, read_file
from nodeupgrade.node.host.files.system_calls import Disk

STATE = PurePosixPath("/etc/plugins/state")
OWN = PurePosixPath("/etc")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "nothing is left open"


@pytest.fixture
def path(root: Path) -> Path:
    (root / "etc/plugins").mkdir()
    return root / "etc/plugins/state"


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(400 * 1024**2)


def second_name(path: Path) -> None:
    path.write_bytes(b"of another")
    (path.parent / "another").hardlink_to(path)


def of_another_user(path: Path) -> None:
    path.write_bytes(b"of another")
    try:
        os.chown(path, 1234, 1234)
    except PermissionError:
        pytest.skip("only root may give files away")


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make devices")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link to a secret": (lambda path: path.symlink_to("../../secret"), "it is a symbolic link"),
    "a link to itself": (lambda path: path.symlink_to("state"), "it is a symbolic link"),
    "a pipe": (os.mkfifo, "it is not a regular file"),
    "a directory": (Path.mkdir, "it is not a regular file"),
    "a socket": (listening, "it is not a regular file"),
    "a device": (device, "it is not a regular file"),
    "a sparse file": (sparse, "it is larger than 16777216 bytes"),
    "a second name": (second_name, "has a second name"),
    "a file of another user": (of_another_user, "belongs to another user"),
}


@pytest.mark.parametrize(("put", "why"), ODD.values(), ids=ODD.keys())
def test_where_others_can_write_only_a_file_of_ones_own_is_read(
    root: Path, path: Path, put: Callable[[Path], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)  # since the path of a socket must not be long
    put(Path("state"))

    with pytest.raises(StepFailed, match=rf"^cannot read {STATE} because .*{why}"):
        HostFiles(root).read_state(STATE)


def test_a_file_of_ones_own_is_read_whole(root: Path, path: Path) -> None:
    files = HostFiles(root)
    assert files.read_state(STATE) is None
    assert files.read_state(STATE / "below") is None
    path.write_bytes(b"x" * LARGEST_STATE)

    assert files.read_state(STATE) == b"x" * LARGEST_STATE
    assert files.read_state(STATE / "below") is None


@pytest.mark.parametrize("name", sorted(ODD.keys() - {"a directory"}))
def test_what_lies_there_is_replaced_and_never_written_to(
    root: Path, path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    ODD[name][0](Path("state"))
    (path.parent / ".state.nodeupgrade-new").symlink_to("../../secret")

    HostFiles(root).write_state(STATE, b"saved", OWN)

    assert (path.read_bytes(), path.lstat().st_mode) == (b"saved", 0o100600)
    assert (root.parent / "secret").read_text() == "outside"
    assert [each.name for each in (root / "etc").iterdir()] == ["plugins"]


def test_a_directory_is_not_replaced(root: Path, path: Path) -> None:
    path.mkdir()

    with pytest.raises(StepFailed, match="Is a directory"):
        HostFiles(root).write_state(STATE, b"saved", OWN)

    assert list(path.iterdir()) == []
    assert [each.name for each in (root / "etc").iterdir()] == ["plugins"]


class Swapping:
    """System calls during which another puts something else at a path, right after it was looked at."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self.target = path, target

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: PurePath, flags: int, mode: int = 0o777, /) -> int:
        if path.parent == PurePath("/proc/self/fd"):
            self.path.unlink()
            if self.target.suffix == ".pipe":
                os.mkfifo(self.path)
            else:
                self.path.symlink_to(self.target)
        return os.open(path, flags, mode)


@pytest.mark.parametrize("target", ["secret", "a.pipe"])
def test_what_was_looked_at_is_read_whatever_is_there_by_now(root: Path, path: Path, target: str) -> None:
    path.write_bytes(b"own")

    with opened(path, disk=Swapping(path, root.parent / target)) as file:  # type: ignore[arg-type]
        assert os.read(file, 9) == b"own"


def test_a_link_put_there_after_the_name_was_followed_is_not_read(root: Path) -> None:
    """Names are followed first, as the node would; whatever is put at the end of the way later is not followed."""
    file = root / "etc/file"
    file.write_bytes(b"own")
    disk = _Following(file)

    with pytest.raises(StepFailed, match="it is a symbolic link"):
        HostFiles(root, disk=disk).read(PurePosixPath("/etc/file"))  # type: ignore[arg-type]


class _Following:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: PurePath, flags: int, mode: int = 0o777, /) -> int:
        if path == self.path:
            self.path.unlink()
            self.path.symlink_to("../../secret")
        return os.open(path, flags, mode)


def test_a_file_that_grows_meanwhile_is_not_read_to_its_end(path: Path) -> None:
    path.write_bytes(b"inside")
    with opened(path) as file:
        chunks = chunks_of(file, 10)
        assert next(chunks) == b"inside"
        path.write_bytes(b"inside and more")
        with pytest.raises(OSError, match="larger than 10 bytes"):
            next(chunks)


def test_what_the_kernel_gives_no_size_of_is_read_within_the_limit() -> None:
    assert read_file(Path("/proc/self/stat")).startswith(str(os.getpid()).encode())
    with pytest.raises(OSError, match="larger than 5 bytes"):
        read_file(Path("/proc/self/stat"), limit=5)


def test_a_state_file_is_written_where_another_filesystem_is_mounted(root: Path, path: Path) -> None:
    """A rollback that cannot write it would fail for ever, with no kubelet running."""

    class Mounted:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def rename(self, source: Path, target: Path) -> None:
            if source.parent != target.parent:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            source.rename(target)

    files = HostFiles(root, disk=cast("Disk", Mounted()))
    files.write_state(STATE, b"saved", OWN)

    assert path.read_bytes() == b"saved"
