"""Tests for opening and copying regular files below a directory, whatever path is given."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.host.files.files import LARGEST_KUBELET
from nodeupgrade.node.host.files.opening import CopyError, copy_regular, open_regular, real_path


@pytest.fixture
def closed() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "nothing is left open"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("outside")
    root = tmp_path / "root"
    (root / "dir").mkdir(parents=True)
    (root / "dir/file").write_text("inside")
    return root


def content(root: Path, path: str) -> bytes:
    with open_regular(root, PurePosixPath(path)) as file:
        return os.read(file, 100)


@pytest.mark.usefixtures("closed")
def test_a_regular_file_is_read(root: Path) -> None:
    assert content(root, "/dir/file") == b"inside"


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize(
    "target", ["/outside", "../outside", "../../outside", "dir/file", "/proc/self/root/etc/passwd"]
)
def test_no_link_is_followed(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "up").symlink_to("..")
    for path in ("/link", "/up/outside", "/up/root/dir/file"):
        with pytest.raises(OSError, match=r"\[Errno") as caught:
            content(root, path)
        assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR, errno.EINVAL}


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("path", ["/../outside", "/dir/../../outside", "/", "/dir", "/absent", "/dir/file/below"])
def test_nothing_else_is_a_file_below(root: Path, path: str) -> None:
    with pytest.raises(OSError, match=r"\[Errno"):
        content(root, path)


@pytest.mark.usefixtures("closed")
def test_pipes_sockets_and_devices_are_not_even_opened(root: Path) -> None:
    """To open a watchdog is to start it; to open a pipe lets whoever writes to it go on."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))
        writer_is_alone = _nobody_reads(root / "pipe")
        for path in ("/pipe", "/socket"):
            with pytest.raises(OSError, match="not a regular file"):
                content(root, path)
        assert writer_is_alone(), "the pipe was opened"
    with pytest.raises(OSError, match="not a regular file"):
        content(Path("/"), "/dev/null")


def _nobody_reads(pipe: Path) -> Callable[[], bool]:
    def alone() -> bool:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno == errno.ENXIO
        return False

    return alone


@pytest.mark.usefixtures("closed")
def test_what_is_exchanged_after_it_was_followed_is_refused(root: Path) -> None:
    (root / "link").symlink_to("/dir/file")
    found = real_path(root, PurePosixPath("/link"))
    assert found == PurePosixPath("/dir/file")
    (root / "dir/file").unlink()
    (root / "dir/file").symlink_to(root.parent / "outside")
    with pytest.raises(OSError, match=r"\[Errno"):
        content(root, str(found))
    (root / "dir/file").unlink()
    (root / "dir").rmdir()
    (root / "dir").symlink_to(root.parent)
    with pytest.raises(OSError, match=r"\[Errno"):
        content(root, "/dir/outside")


def test_a_path_with_a_way_up_is_not_followed(root: Path) -> None:
    with pytest.raises(OSError, match=r"it contains \.\."):
        real_path(root, PurePosixPath("/dir/../../outside"))


@pytest.mark.parametrize("link", ["/proc/self", "/proc/1/root", "/dev/fd"])
def test_the_kernels_own_links_are_not_followed(link: str) -> None:
    with pytest.raises(OSError, match=f"it leads (to|through) {link}"):
        real_path(Path("/"), PurePosixPath(link, "etc/passwd"))


@pytest.mark.parametrize(
    ("source", "why"), [("/absent", "does not exist"), ("/fifo", "not a regular"), ("/", "not the path")]
)
def test_copy_says_why_it_cannot(tmp_path: Path, source: str, why: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CopyError, match=why):
        copy_regular(tmp_path, PurePosixPath(source), tmp_path / "copied")

    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.usefixtures("closed")
def test_holes_count_and_none_of_them_is_written(tmp_path: Path) -> None:
    """A file of any length takes no room where it lies, and would take all of it where it is copied to."""
    (tmp_path / "copied").write_bytes(b"before")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(LARGEST_KUBELET + 1)

    with pytest.raises(CopyError, match=r"^cannot copy /sparse to .*copied: it is larger than 268435456 bytes$"):
        copy_regular(tmp_path, PurePosixPath("/sparse"), tmp_path / "copied")

    assert (tmp_path / "copied").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied", "sparse"]


def test_a_file_may_be_as_large_as_the_limit(root: Path, tmp_path: Path) -> None:
    copy_regular(root, PurePosixPath("/dir/file"), tmp_path / "copied", limit=len(b"inside"))

    assert (tmp_path / "copied").read_bytes() == b"inside"
