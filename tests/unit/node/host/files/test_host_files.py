"""Tests for file operations on a real filesystem: attributes, symbolic links, and files left by a crash."""

import contextlib
import errno
import functools
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files import host_files, misplaced
from nodeupgrade.node.host.files.files import Misplaced
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.names_beside import UNFINISHED
from tests.doubles.node.storage.disk import Listed

FILE = PurePosixPath("/etc/file")
ATTRIBUTE = "user.label"


@pytest.fixture
def files(root: Path) -> HostFiles:
    return HostFiles(root)


def mark(path: Path) -> None:
    path.chmod(0o751)
    try:
        os.setxattr(path, ATTRIBUTE, b"kubelet_exec_t")
    except OSError:
        pytest.skip("the filesystem of the temporary directory keeps no extended attributes")


def marked(path: Path) -> bool:
    return path.stat().st_mode & 0o7777 == 0o751 and os.getxattr(path, ATTRIBUTE) == b"kubelet_exec_t"


def test_writing_keeps_mode_and_attributes_of_what_was_there(files: HostFiles, root: Path) -> None:
    files.write(FILE, b"one", mode=0o640)
    assert (root / "etc/file").stat().st_mode & 0o7777 == 0o640
    mark(root / "etc/file")

    files.write(FILE, b"two", mode=0o600)

    assert (root / "etc/file").read_bytes() == b"two"
    assert marked(root / "etc/file")


def test_copies_and_adopters_have_the_attributes_of_their_pattern(files: HostFiles, root: Path) -> None:
    files.write(FILE, b"pattern")
    mark(root / "etc/file")

    files.copy(FILE, PurePosixPath("/etc/copy"))
    files.write(PurePosixPath("/etc/adopter"), b"another")
    files.adopt(FILE, PurePosixPath("/etc/adopter"))

    assert marked(root / "etc/copy")
    assert marked(root / "etc/adopter")
    assert (root / "etc/adopter").read_bytes() == b"another"


ACL = "system.posix_acl_access"
BY_DEFAULT = "system.posix_acl_default"


def access_list(*, nobody: int) -> bytes:
    """An access control list as the kernel stores it, with an entry for the user 65534."""
    none = 0xFFFFFFFF
    entries = ((0x01, 6, none), (0x02, nobody, 65534), (0x04, 4, none), (0x10, nobody | 4, none), (0x20, 0, none))
    return struct.pack("=I", 2) + b"".join(struct.pack("=HHI", *entry) for entry in entries)


def set_access_list(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError:
        pytest.skip("the filesystem of the temporary directory keeps no access control lists")


@pytest.mark.parametrize("listed", [True, False])
def test_what_is_put_back_has_its_own_access_control_list_and_no_other(
    files: HostFiles, root: Path, listed: bool
) -> None:
    """A directory may have one for whatever is made there, which an older file does not have."""
    files.write(FILE, b"old", mode=0o640)
    if listed:
        set_access_list(root / "etc/file", ACL, access_list(nobody=4))
    set_access_list(root / "etc", BY_DEFAULT, access_list(nobody=6))
    before = attributes(root / "etc/file")

    files.copy(FILE, PurePosixPath("/etc/backup"))
    files.write(PurePosixPath("/etc/staged"), b"new", mode=0o644)
    files.copy(PurePosixPath("/etc/staged"), FILE)
    assert attributes(root / "etc/file") != before
    files.copy(PurePosixPath("/etc/backup"), FILE)
    assert attributes(root / "etc/file") == before

    files.write(FILE, b"edited")
    assert attributes(root / "etc/file") == before


def attributes(path: Path) -> tuple[int, dict[str, bytes]]:
    return path.stat().st_mode, {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(files: HostFiles, root: Path) -> None:
    files.write(FILE, b"one")
    os.chown(root / "etc/file", 1234, 5678)

    files.write(FILE, b"two")

    status = (root / "etc/file").stat()
    assert (status.st_uid, status.st_gid) == (1234, 5678)


def test_replacing_gives_the_program_a_second_name(files: HostFiles, root: Path) -> None:
    files.write(PurePosixPath("/etc/new"), b"new")
    files.write(FILE, b"old")
    with (root / "etc/file").open("rb") as running:
        files.replace(PurePosixPath("/etc/new"), FILE)
        assert running.read() == b"old", "who has it open keeps the old one"
    assert (root / "etc/new").samefile(root / "etc/file")


def test_links_in_the_middle_are_followed_always(root: Path, files: HostFiles) -> None:
    (root / "run").mkdir()
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")

    files.write(PurePosixPath("/var/run/x/y"), b"1")

    assert (root / "run/x/y").read_bytes() == b"1"


def test_a_file_that_is_removed_while_it_is_read_is_none(files: HostFiles, root: Path) -> None:
    """As by an editor that removes a manifest before it writes the new one."""
    (root / "etc/file").touch()

    class Removing:
        def __getattr__(self, name: str) -> Any:
            return self.gone if name == "open" else getattr(os, name)

        def gone(self, path: Path, *_rest: object) -> int:
            raise FileNotFoundError(path)

    late = replace(files, disk=cast("Disk", Removing()))

    assert (late.read(FILE), late.digest(FILE)) == (None, None)


@pytest.mark.parametrize("error", [errno.ESRCH, errno.ENODEV])
@pytest.mark.parametrize(
    ("path", "ends"),
    [("/proc/7/stat", True), ("/sys/fs/cgroup/kubepods/cgroup.procs", True), ("/processes/7", False)],
)
def test_what_ends_while_the_kernel_tells_of_it_is_none(
    files: HostFiles, root: Path, path: str, ends: bool, error: int
) -> None:
    """A process, or a cgroup; on a disk, the same error is one."""
    (root / path[1:]).parent.mkdir(parents=True)
    (root / path[1:]).touch()

    class Ending:
        def __getattr__(self, name: str) -> Any:
            return self.gone if name == "read" else getattr(os, name)

        def gone(self, _descriptor: int, _size: int) -> bytes:
            raise OSError(error, os.strerror(error))

    late = replace(files, disk=cast("Disk", Ending()))

    if ends:
        assert (late.read(PurePosixPath(path)), late.digest(PurePosixPath(path))) == (None, None)
    else:
        with pytest.raises(StepFailed, match=f"cannot read {path}"):
            late.read(PurePosixPath(path))


def test_nothing_outside_the_root_is_reached(root: Path, files: HostFiles) -> None:
    (root / "out").symlink_to("../secret")
    (root / "dir").symlink_to("..")

    assert files.read(PurePosixPath("/out")) is None
    assert files.read(PurePosixPath("/dir/secret")) is None
    assert files.read(PurePosixPath("/../secret")) is None


def test_odd_paths_are_refused(root: Path, files: HostFiles) -> None:
    files.write(FILE, b"1")
    (root / "link").symlink_to("/etc/file")
    (root / "loop").symlink_to("/loop")
    os.mkfifo(root / "fifo")

    with pytest.raises(StepFailed, match="symbolic link"):
        files.write(PurePosixPath("/link"), b"2")
    with pytest.raises(StepFailed, match="symbolic link"):
        files.remove(PurePosixPath("/link"))
    with pytest.raises(StepFailed, match="Too many levels"):
        files.read(PurePosixPath("/loop"))
    for odd in ("/fifo", "/etc"):
        with pytest.raises(StepFailed, match="not a regular file"):
            files.read(PurePosixPath(odd))
    with pytest.raises(StepFailed, match="not an absolute path"):
        files.read(PurePosixPath("etc/file"))
    assert (root / "etc/file").read_bytes() == b"1"
    assert files.list(PurePosixPath("/")) == ()


@pytest.fixture
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        yield


@pytest.mark.usefixtures("_full_disk")
def test_a_full_disk_leaves_the_old_content_and_no_rubbish(files: HostFiles, root: Path) -> None:
    (root / "etc/file").write_text("old")

    with pytest.raises(StepFailed, match="cannot write /etc/file because No space left"):
        files.write(FILE, b"new")

    assert [p.name for p in (root / "etc").iterdir()] == ["file"]
    assert (root / "etc/file").read_text() == "old"


def test_what_a_crash_left_is_not_listed_and_is_overwritten(files: HostFiles, root: Path) -> None:
    (root / "etc" / f".file{UNFINISHED}").write_text("half a fi")

    assert files.list(PurePosixPath("/etc")) == ()
    files.write(FILE, b"whole")

    assert [p.name for p in (root / "etc").iterdir()] == ["file"]


@pytest.mark.parametrize("tidying", ["remove", "tidy"])
def test_what_a_crash_left_is_taken_away(files: HostFiles, root: Path, tidying: str) -> None:
    (root / "etc" / f".file{UNFINISHED}").write_text("half a fi")
    files.write(PurePosixPath("/etc/other"), b"x")

    getattr(files, tidying)(FILE)

    assert [p.name for p in (root / "etc").iterdir()] == ["other"]


def test_what_cannot_be_changed_is_found(files: HostFiles, root: Path) -> None:
    files.write(FILE, b"x")
    if subprocess.run(["chattr", "+i", root / "etc/file"], check=False, capture_output=True, timeout=600).returncode:
        pytest.skip("the filesystem of the temporary directory knows no such attribute, or this is not root")
    try:
        assert files.immutable(FILE)
        assert not files.immutable(FILE.parent)
        assert not files.immutable(PurePosixPath("/etc/none"))
    finally:
        subprocess.run(["chattr", "-i", root / "etc/file"], check=True, timeout=600)


def test_the_time_of_a_change_is_that_of_everything_that_leads_there(files: HostFiles, root: Path) -> None:
    """Content, attributes, and the links on the way; not the time that somebody wrote into the file's own."""
    (root / "one").mkdir()
    (root / "two").mkdir()
    for place in ("one", "two"):
        (root / place / "config").write_bytes(b"x")
    os.utime(root / "two/config", (1, 1))
    (root / "now").symlink_to("/one")
    before = files.changed(PurePosixPath("/now/config"))
    assert before is not None
    assert files.changed(PurePosixPath("/two/config")) == (root / "two/config").stat().st_ctime_ns / 1e9
    os.utime(root / "now", (9e9, 9e9), follow_symlinks=False)

    assert files.changed(PurePosixPath("/now/config")) == 9e9
    assert files.changed(PurePosixPath("/one")) == (root / "one").stat().st_mtime_ns / 1e9
    assert files.changed(PurePosixPath("/nowhere/config")) is None


def test_a_directory_is_walked_in_the_order_of_a_kubelet(files: HostFiles, root: Path) -> None:
    for name in ("d/b.conf", "d/a/z.conf", "d/a.conf"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "d/c.conf").symlink_to("/elsewhere")

    found = [str(path) for path in files.walk(PurePosixPath("/d"))]

    assert found == ["/d/a/z.conf", "/d/a.conf", "/d/b.conf", "/d/c.conf"]
    assert files.walk(PurePosixPath("/nowhere")) == ()


def test_a_link_to_a_directory_is_no_file_wherever_the_root_is_mounted(files: HostFiles, root: Path) -> None:
    """An absolute one is the node's: a kubelet finds the directory, and what the reader has there does not count."""
    (root / "conf.d").mkdir()
    (root / "etc/there").mkdir()
    for name, target in {"node": "/etc/there", "beside": "../etc", "reader": str(root / "etc"), "no": "no"}.items():
        (root / "conf.d" / name).symlink_to(target)

    found = [path.name for path in files.walk(PurePosixPath("/conf.d"))]

    assert found == ["no", "reader"]


def test_of_a_crowded_directory_no_socket_is_looked_for(
    files: HostFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "MOST_ENTRIES", 3)
    (root / "plugins").mkdir()
    monkeypatch.chdir(root / "plugins")  # since the path of a socket must not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("theirs.sock")
        for name in ("a", "b"):
            Path(name).symlink_to("/dead")
        at = PurePosixPath("/plugins")

        assert (files.is_crowded(at), files.is_crowded(at / "none")) == (False, False)
        assert files.sockets_in(at) == (at / "theirs.sock",)
        Path("more").touch()
        assert files.is_crowded(at)
        assert files.sockets_in(at) == ()


def test_no_crowd_hides_a_link_that_a_starting_kubelet_would_follow(
    files: HostFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way back has to start a kubelet whatever has come meanwhile."""
    monkeypatch.setattr(host_files, "MOST_ENTRIES", 3)
    at, plugins = PurePosixPath("/plugins"), root / "plugins"
    plugins.mkdir()
    for name in "abcd":
        (plugins / name).touch()
    (plugins / "dead").symlink_to("/dead")
    (plugins / "directory").mkdir()

    assert files.is_crowded(at)
    assert (files.remove_links(at), files.remove_links(at), files.remove_links(at / "none")) == (1, 0, 0)
    assert sorted(path.name for path in plugins.iterdir()) == ["a", "b", "c", "d", "directory"]


@pytest.mark.parametrize("call", ["lstat", "open", "rename"])
def test_a_directory_that_is_exchanged_for_a_link_has_nothing_elsewhere_moved(
    files: HostFiles, root: Path, call: str
) -> None:
    """A pod names its containers as it likes, such as like a file of the node."""
    pod, elsewhere = root / "pods" / "pod", root / "elsewhere"
    for path in (pod, elsewhere):
        path.mkdir(parents=True)
    (elsewhere / "shadow").touch()
    os.mkfifo(pod / "shadow")
    raced = list[str]()

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return functools.partial(self.raced, getattr(os, name)) if name == call else getattr(os, name)

        def raced(self, real: Any, path: Path, *rest: object) -> Any:
            if path.name in {"pod", "shadow"} and not raced:
                raced.append(path.name)
                pod.rename(root / "pods" / "away")
                pod.symlink_to(elsewhere)
            return real(path, *rest)

    racing = replace(files, disk=cast("Disk", Racing()))
    with contextlib.suppress(StepFailed):
        racing.clear_way(PurePosixPath("/pods/pod/shadow/0.log"), PurePosixPath("/pods"))

    assert raced
    assert [path.name for path in elsewhere.iterdir()] == ["shadow"]


def test_who_looks_for_what_is_in_the_way_leaves_nothing_open(files: HostFiles, root: Path) -> None:
    (root / "pods").mkdir()
    (root / "pods/0.log").mkdir()
    before = sorted(Path("/proc/self/fd").iterdir())

    for path in ("0.log", "none/0.log"):
        files.clear_way(PurePosixPath("/pods") / path, PurePosixPath("/"))

    assert sorted(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(("mode", "error", "moved"), [
    (0o1777, errno.EACCES, True), (0o755, errno.EACCES, False), (0o755, errno.EPERM, True), (0o755, errno.EIO, False),
])  # fmt: skip
def test_what_nobody_can_append_to_is_moved_and_what_only_we_cannot_is_not(
    files: HostFiles, root: Path, mode: int, error: int, *, moved: bool
) -> None:
    """Of files of others in a sticky directory, the kernel lets nobody open one that may create it."""
    log = root / "pods/0.log"
    log.parent.mkdir()
    log.touch()
    log.parent.chmod(mode)

    class Denying:
        def __getattr__(self, name: str) -> Any:
            return self.open if name == "open" else getattr(os, name)

        def open(self, path: Path, flags: int, *rest: int) -> int:
            if flags & os.O_CREAT:
                raise OSError(error, os.strerror(error))
            return os.open(path, flags, *rest)

    denied = replace(files, disk=cast("Disk", Denying()))
    with contextlib.suppress(StepFailed):
        denied.clear_way(PurePosixPath("/pods/0.log"), PurePosixPath("/"))

    assert log.exists() is not moved


@pytest.mark.parametrize("call", ["clear_way", "set_aside"])
def test_a_directory_that_hands_down_a_project_keeps_nothing_in_its_place(
    files: HostFiles, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Its owner may choose one (XFS needs no quota for that): nothing of another project can be renamed in it."""
    there = root / "pods/0.log"
    there.mkdir(parents=True)
    as_it_was = struct.pack("=7I", 0x202, 1, 2, 7, 3, 0, 0)
    kept = [as_it_was]

    class Quota:
        def __getattr__(self, name: str) -> Any:
            return self.rename if name == "rename" else getattr(os, name)

        def rename(self, path: Path, target: Path) -> None:
            if struct.unpack_from("=I", kept[-1])[0] & 0x200:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            path.rename(target)

    def ioctl(descriptor: int, request: int, data: bytes) -> bytes:
        assert os.path.samestat(os.fstat(descriptor), there.parent.stat())
        if request == misplaced.FS_IOC_FSSETXATTR:
            kept.append(data)
        return kept[-1]

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    full = replace(files, disk=cast("Disk", Quota()))

    if call == "clear_way":
        assert full.clear_way(PurePosixPath("/pods/0.log"), PurePosixPath("/")) is not None
    else:
        assert full.set_aside(PurePosixPath("/pods/0.log")) is not None

    assert not there.exists()
    assert kept == [as_it_was, struct.pack("=7I", 0x002, 1, 2, 7, 3, 0, 0), as_it_was]


def test_what_is_in_the_way_of_a_log_is_moved_without_waiting_for_a_disk(files: HostFiles, root: Path) -> None:
    """A pod that writes much makes each wait long, for hundreds of logs, while no kubelet runs."""
    (root / "pods/0.log").mkdir(parents=True)

    class Busy:
        def __getattr__(self, name: str) -> Any:
            assert name != "fsync"
            return getattr(os, name)

    busy = replace(files, disk=cast("Disk", Busy()))

    assert busy.clear_way(PurePosixPath("/pods/0.log"), PurePosixPath("/")) is not None


@pytest.mark.parametrize("mounted", [False, True])
def test_a_directory_that_is_read_only_by_itself_is_in_the_way(files: HostFiles, root: Path, *, mounted: bool) -> None:
    """Its owner may make it a subvolume of btrfs and read-only. To a precheck, the whole host is mounted so."""
    log = root / "pods/pod/app/0.log"
    log.parent.mkdir(parents=True)
    frozen = log.parents[2 if mounted else 1]

    class Subvolume:
        def __getattr__(self, name: str) -> Any:
            return {"removexattr": self.changes, "statvfs": self.tells}.get(name) or getattr(os, name)

        def changes(self, path: Path, attribute: str) -> None:
            if frozen.resolve() in {path.resolve(), *path.resolve().parents}:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            os.removexattr(path, attribute)

        def tells(self, path: Path) -> Any:
            return SimpleNamespace(f_flag=os.ST_RDONLY if mounted else os.statvfs(path).f_flag & ~os.ST_RDONLY)

    full = replace(files, disk=cast("Disk", Subvolume()))
    at = PurePosixPath("/pods/pod/app/0.log")

    found = full.misplaced(at, PurePosixPath("/"))

    if mounted:
        assert found is None
    else:
        assert found == Misplaced(path=PurePosixPath("/pods/pod"), what="cannot be written: Read-only file system")
        assert full.clear_way(at, PurePosixPath("/")) is not None
        assert not frozen.exists()


def test_a_directory_that_cannot_be_renamed_since_it_was_a_subvolume_is_removed(files: HostFiles, root: Path) -> None:
    """In a snapshot of btrfs, which the owner of a subvolume may make, an empty directory is in the place of others."""
    log = root / "pods/0.log"
    log.mkdir(parents=True)

    class Snapshot:
        def __getattr__(self, name: str) -> Any:
            return self.rename if name == "rename" else getattr(os, name)

        def rename(self, _path: Path, _target: Path) -> None:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    replace(files, disk=cast("Disk", Snapshot())).clear_way(PurePosixPath("/pods/0.log"), PurePosixPath("/"))

    assert not log.exists()


def test_a_directory_that_takes_the_place_of_a_link_keeps_no_other_link(files: HostFiles, root: Path) -> None:
    plugins = root / "plugins"
    plugins.mkdir()
    for name in ("one", "two", "three"):
        (plugins / name).symlink_to("/dead")

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return self.unlink if name == "unlink" else getattr(os, name)

        def unlink(self, path: Path) -> None:
            path.unlink()
            if not any(path.is_dir() for path in plugins.iterdir()):
                path.mkdir()
                path.unlink()

    replace(files, disk=cast("Disk", Racing())).remove_links(PurePosixPath("/plugins"))

    assert [path.is_symlink() for path in plugins.iterdir()] == [False]


def test_what_others_put_into_a_directory_fills_no_memory(
    files: HostFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hard links, millions of names cost nothing but the directory."""
    monkeypatch.setattr(host_files, "MOST_ENTRIES", 3)
    monkeypatch.setattr(host_files, "MOST_LINKS", 2)
    seen = list[Listed]()

    def links() -> Iterator[Listed]:
        while True:
            seen.append(Listed(str(len(seen)), link=True))
            yield seen[-1]

    @contextmanager
    def scandir(_: Path) -> Iterator[Iterator[Listed]]:
        yield links()

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "listdir", None)
    (root / "plugins").mkdir()

    assert files.is_crowded(PurePosixPath("/plugins"))
    assert files.remove_links(PurePosixPath("/plugins")) == 2
    assert len(seen) == 4 + 2


def test_a_socket_is_found_where_it_really_is(files: HostFiles, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "run/k3s").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "run/short.sock").symlink_to("k3s/real.sock")
    (root / "run/circle.sock").symlink_to("circle.sock")
    monkeypatch.chdir(root / "run/k3s")  # since the path of a socket must not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("real.sock")

        assert files.socket(PurePosixPath("/var/run/short.sock")) == PurePosixPath("/run/k3s/real.sock")
        assert files.sockets_in(PurePosixPath("/var/run/k3s")) == (PurePosixPath("/var/run/k3s/real.sock"),)
    with pytest.raises(StepFailed, match=r"circle\.sock because Too many levels"):
        files.socket(PurePosixPath("/run/circle.sock"))
