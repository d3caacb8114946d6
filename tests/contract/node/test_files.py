"""What every Files promises."""

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import EntryKind, Files
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.names_beside import is_beside_another
from tests.contract.node.worlds import FilesWorld
from tests.doubles.node.storage.disk import Inode, ModelDisk
from tests.doubles.node.storage.files import SimulatedFiles


def test_what_was_written_is_read(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "deep" / "file"
    assert (files.read(path), files.digest(path), files.size(path)) == (None, None, None)

    files.write(path, b"one")
    files.write(path, b"second")

    assert files.read(path) == b"second"
    assert files.digest(path) == hashlib.sha256(b"second").hexdigest()
    assert files.size(path) == 6
    assert files.list(path.parent) == (path,)
    assert (files.real(path), files.real(path.parent), files.real(path / "below")) == (path, None, None)


def test_what_the_kernel_provides_is_written_in_place_and_not_made(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "max_user_instances"
    with pytest.raises(StepFailed):
        files.write_kernel(path, b"65536\n")
    assert files.read(path) is None

    files.write(path, b"128\n")
    files.write_kernel(path, b"65536\n")

    assert files.read(path) == b"65536\n"


def test_a_copy_is_independent(files_world: FilesWorld) -> None:
    files, source, target = files_world.files, files_world.directory / "a", files_world.directory / "sub" / "b"
    files.write(source, b"one")

    files.copy(source, target)
    files.write(source, b"two")

    assert files.read(target) == b"one"


def test_replacing_keeps_the_source_and_may_be_repeated(files_world: FilesWorld) -> None:
    files, new, live = files_world.files, files_world.directory / "new", files_world.directory / "live"
    files.write(new, b"new")
    files.write(live, b"old")

    for _ in range(2):
        files.replace(new, live)

    assert (files.read(new), files.read(live)) == (b"new", b"new")
    assert files.list(files_world.directory) == (live, new)
    files.write(live, b"newer")
    assert files.read(new) == b"new", "writing one name never reaches through to the other"


def test_a_stamp_tells_of_other_content_and_of_nothing_else(files_world: FilesWorld) -> None:
    files, path, fresh = files_world.files, files_world.directory / "a", files_world.directory / "b"
    assert files.stamp(path) is None
    files.write(path, b"one")
    before = files.stamp(path)
    assert before is not None

    files.replace(path, files_world.directory / "another-name")
    assert files.stamp(path) == before

    files.write(fresh, b"two")
    files.replace(fresh, path)
    assert files.stamp(path) != before


def test_when_a_file_or_directory_was_changed_is_told_of_those_that_are_there(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "a"
    assert files.changed(path) is None
    files.write(path, b"one")
    before = files.changed(path)

    files.write(path, b"two")

    after = files.changed(path)
    assert before is not None
    assert after is not None
    assert after >= before
    assert files.changed(path.parent) is not None


def test_nothing_else_is_taken_for_a_socket(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "file"
    files.write(path, b"one")

    assert [files.socket(each) for each in (path, path.parent, path.with_name("none"), path / "none")] == [None] * 4
    assert files.sockets_in(path.parent) == files.sockets_in(path.with_name("none")) == ()


def test_a_directory_is_empty_until_something_is_in_it(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "some" / "file"
    assert files.is_empty(path.parent)

    files.write(path, b"x")

    assert not files.is_empty(path.parent)
    assert not files.is_empty(files_world.directory)


def test_a_file_that_cannot_be_appended_to_is_told_and_so_is_a_link_on_the_way(files_world: FilesWorld) -> None:
    files, at = files_world.files, files_world.directory
    files.write(at / "pods" / "one" / "0.log", b"line")
    files.write(at / "pods" / "two" / "0.log" / "x", b"")
    files.write(at / "pods" / "three", b"")
    make_link(files, at / "pods" / "four", "one")
    make_link(files, at / "link", str(at / "pods"))

    def told(name: str) -> tuple[str, str] | None:
        found = files.misplaced(at / "pods" / name / "0.log", at / "pods")
        return None if found is None else (str(found.path.relative_to(at / "pods")), found.what)

    assert told("one") is told("none") is None
    assert files.clear_way(at / "pods" / "one" / "0.log", at) is None
    assert files.misplaced(at / "none" / "pods" / "0.log", at / "none") is None, "what is missing is made"
    assert told("two") == ("two/0.log", "is a directory")
    assert told("three") == ("three", "is a regular file")
    assert told("four") == ("four", "is a symbolic link")
    assert files.misplaced(at / "link" / "one" / "0.log", at / "link") is None, "to where it begins, links lead"
    assert files.read(at / "pods" / "one" / "0.log") == b"line"
    for name in ("two", "three", "four"):
        aside = files.clear_way(at / "pods" / name / "0.log", at)
        assert aside is not None
        assert aside.parent in {at / "pods", at / "pods" / name}
        assert is_beside_another(aside.name)
        assert told(name) is None
    assert files.read(at / "pods" / "one" / "0.log") == b"line"
    if isinstance(files, HostFiles) and files.disk is os:
        files.write(at / "pods" / "five" / "x", b"")
        program = files.seen(at / "pods" / "five" / "0.log")
        os.mkfifo(program)
        assert told("five") == ("five/0.log", "is not a regular file")
        program.unlink()
        shutil.copy(shutil.which("sleep") or "", program)
        with subprocess.Popen([program, "600"]) as process:
            assert told("five") == ("five/0.log", "cannot be written: Text file busy")
            assert files.clear_way(at / "pods" / "five" / "0.log", at) is not None
            process.kill()


def test_a_file_that_nobody_has_locked_has_no_lockers(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "meta.db"
    files.write(path, b"pages")

    assert not files.lockers([path, path.with_name("none")])


def test_what_is_no_directory_is_in_the_way_of_one_and_so_is_a_link_on_the_way(files_world: FilesWorld) -> None:
    files, at = files_world.files, files_world.directory
    files.write(at / "there" / "pods" / "x", b"theirs")
    files.write(at / "there" / "file", b"theirs")
    make_link(files, at / "link", str(at / "there"))
    make_link(files, at / "long", f"/{'a' * 300}")  # no look at where it leads would come back with an answer

    assert files.misplaced(at / "there" / "pods", at, directory=True) is None
    assert files.clear_way(at / "none" / "pods", at, directory=True) is None
    for name, in_the_way in (
        ("there/file", "there/file"),
        ("link/pods", "link"),
        ("link/file", None),
        ("long", "long"),
    ):
        found = files.misplaced(at / name, at, directory=True)
        assert (None if found is None else str(found.path.relative_to(at))) == in_the_way
        aside = files.clear_way(at / name, at, directory=True)
        assert (aside is None) is (in_the_way is None)
    assert files.read(at / "there" / "pods" / "x") == b"theirs"


def test_removing_may_be_repeated(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "file"
    files.write(path, b"x")

    for _ in range(2):
        files.remove(path)

    assert files.read(path) is None
    assert files.list(files_world.directory / "nowhere") == ()


@pytest.mark.parametrize("operation", ["copy", "replace"])
def test_a_missing_source_fails_and_leaves_the_target(files_world: FilesWorld, operation: str) -> None:
    files, target = files_world.files, files_world.directory / "target"
    files.write(target, b"old")

    with pytest.raises(StepFailed, match="missing"):
        getattr(files, operation)(files_world.directory / "missing", target)

    assert files.read(target) == b"old"


def test_free_space_is_told_also_for_what_does_not_exist_yet(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "not" / "yet"
    usage = files.usage(path)
    assert 0 < usage.free <= usage.size
    assert 0 <= usage.free_inodes <= usage.inodes


def test_a_file_is_executable_if_it_is_one(files_world: FilesWorld) -> None:
    files, program = files_world.files, files_world.directory / "program"
    files.write(program, b"#!", mode=0o755)

    assert files.executable(program)
    assert not files.executable(files_world.directory / "nowhere")


def test_an_entry_tells_what_is_there_and_how_many_names_it_has(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "deep" / "file"
    assert files.entry(path) is None

    files.write(path, b"one")

    found, above = files.entry(path), files.entry(path.parent)
    assert found is not None
    assert (found.kind, found.links, found.real) == (EntryKind.FILE, 1, path)
    assert above is not None
    assert above.kind is EntryKind.DIRECTORY


def test_a_directory_is_set_aside_with_what_is_in_it_and_a_file_is_not(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "a"
    assert files.set_aside(path) is None
    files.write(path, b"a file")
    assert files.set_aside(path) is None
    files.remove(path)
    files.write(path / "theirs", b"theirs")

    aside = files.set_aside(path)

    assert aside is not None
    assert (aside.parent, aside.name.startswith(".a.")) == (path.parent, True)
    assert (files.entry(path), files.read(aside / "theirs")) == (None, b"theirs")


def test_what_is_set_aside_twice_is_in_two_places(files_world: FilesWorld) -> None:
    files, path = files_world.files, files_world.directory / "a"
    asides = list[PurePosixPath | None]()
    for content in (b"one", b"two"):
        files.write(path / "theirs", content)
        asides.append(files.set_aside(path))

    assert [aside and files.read(aside / "theirs") for aside in asides] == [b"one", b"two"]


def make_socket(files: Files, path: PurePosixPath) -> None:
    """Make a socket on which nobody listens."""
    if isinstance(files, SimulatedFiles):
        files.sockets.add(str(path))
    elif isinstance(files, HostFiles) and files.disk is os:
        os.mknod(files.seen(path), stat.S_IFSOCK | 0o755)
    elif isinstance(files, HostFiles) and isinstance(files.disk, ModelDisk):
        files.disk.make(str(path), Inode(mode=stat.S_IFSOCK | 0o755))


def test_a_socket_and_a_link_to_it_are_told_apart_and_removed_by_name(files_world: FilesWorld) -> None:
    files, at = files_world.files, files_world.directory
    files.write(at / "file", b"one")
    make_socket(files, at / "socket")
    for name, target in (("link", "socket"), ("dangling", "nowhere"), ("over", ".")):
        make_link(files, at / name, target)

    kinds = [entry and entry.kind for entry in map(files.entry, (at / "socket", at / "link", at / "dangling"))]
    assert kinds == [EntryKind.SOCKET, EntryKind.LINK, EntryKind.LINK]
    with pytest.raises(StepFailed, match="symbolic link"):
        files.read_state(at / "link")
    files.write_state(at / "link", None, at)
    assert (files.remove_links(at), files.remove_links(at), files.remove_links(at / "none")) == (2, 0, 0)
    assert [files.entry(at / name) for name in ("link", "dangling", "over")] == [None] * 3
    assert files.sockets_in(at) == (at / "socket",)
    assert files.read(at / "file") == b"one"

    files.write_state(at / "socket", None, at)

    assert files.entry(at / "socket") is None


def make_link(files: Files, path: PurePosixPath, target: str) -> None:
    """Make a symbolic link, where the files have any."""
    if isinstance(files, SimulatedFiles):
        files.links[str(path)] = target
    elif isinstance(files, HostFiles) and files.disk is os:
        files.seen(path).symlink_to(target)
    elif isinstance(files, HostFiles) and isinstance(files.disk, ModelDisk):
        files.disk.make(str(path), Inode(mode=stat.S_IFLNK | 0o777, data=target.encode()))


def test_reads_follow_links_and_each_tells_where_a_path_leads(files_world: FilesWorld) -> None:
    files, at = files_world.files, files_world.directory
    files.write(at / "deep" / "file", b"one")
    make_link(files, at / "over", "deep/../deep")
    make_link(files, at / "name", str(at / "over" / "file"))

    assert files.read(at / "name") == files.read(at / "over" / "file") == b"one"
    assert files.size(at / "name") == 3
    assert files.digest(at / "name") == files.digest(at / "deep" / "file")
    assert files.follow(at / "name") == files.real(at / "name") == at / "deep" / "file"
    assert files.follow(at / "over" / "none" / "yet") == at / "deep" / "none" / "yet"
    assert files.walk(at / "over") == files.walk(at / "over", deep=False) == (at / "over" / "file",)
    assert at / "deep" / "file" not in files.walk(at, deep=False)
    assert files.list(at / "over") == (at / "over" / "file",)
    link, behind = files.entry(at / "name"), files.entry(at / "over" / "file")
    assert link is not None
    assert behind is not None
    assert (link.kind, link.real) == (EntryKind.LINK, at / "name")
    assert (behind.kind, behind.real) == (EntryKind.FILE, at / "deep" / "file")
