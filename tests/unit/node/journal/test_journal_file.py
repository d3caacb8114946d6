"""Tests for the journal file: appending, damage, and full disks."""

import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nodeupgrade.errors import Inconsistent, StepFailed
from nodeupgrade.node.journal.journal import Journal, Mark, render
from nodeupgrade.node.journal.journal_file import RESERVE_BYTES, FileJournal, read_journal
from nodeupgrade.node.journal.run_store import BusyError
from tests.builders.journal_records import RECORDS, record

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_what_is_appended_is_loaded_by_the_next_writer(path: Path) -> None:
    with FileJournal(path) as journal:
        assert journal.load() == Journal()
        for each in RECORDS:
            journal.append(each)

    with FileJournal(path) as journal:
        assert journal.load() == Journal(RECORDS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["journal"]


def test_one_writer_any_reader(path: Path) -> None:
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])

        with pytest.raises(BusyError, match="another executor"):
            FileJournal(path)
        assert read_journal(path) == Journal(RECORDS[:1])


def test_a_reader_meets_a_record_that_is_being_written(path: Path) -> None:
    path.write_bytes(render(RECORDS[0]) + render(RECORDS[1])[:-7])

    assert read_journal(path) == Journal(RECORDS[:1])
    assert read_journal(path.with_name("none")) == Journal()


def test_a_tail_torn_at_any_byte_makes_room_for_the_next_record(path: Path) -> None:
    whole, torn = render(RECORDS[0]), render(RECORDS[1])
    for kept in range(len(torn)):
        path.write_bytes(whole + torn[:kept])
        with FileJournal(path) as journal:
            assert journal.load() == Journal(RECORDS[:1])
            journal.append(record(2, Mark.FAILED, error="shorter or longer than what was torn"))
        assert [r.mark for r in read_journal(path).records] == [Mark.DONE, Mark.FAILED]


def test_damage_in_the_middle_is_left_as_it_is(path: Path) -> None:
    data = b"".join(map(render, RECORDS)).replace(b'"seq":2', b'"seq":7')
    path.write_bytes(data)

    with FileJournal(path) as journal, pytest.raises(Inconsistent, match="record 2 is damaged"):
        journal.load()
    assert path.read_bytes() == data


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_a_record_that_is_not_durable_does_not_stay(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    announced = record(2, Mark.DOING)
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        with monkeypatch.context() as patch:
            patch.setattr(os, call, _half_then_fail(os.write))
            with pytest.raises(StepFailed, match="cannot write the journal"):
                journal.append(announced)
        assert path.read_bytes() == render(RECORDS[0])

        journal.append(announced)
    assert read_journal(path) == Journal((RECORDS[0], announced))


def test_what_could_not_even_be_cut_off_is_cut_off_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", _half_then_fail(os.write))
            patch.setattr(os, "ftruncate", _fail)
            with pytest.raises(StepFailed):
                journal.append(RECORDS[1])
        assert path.stat().st_size > len(render(RECORDS[0]))

        journal.append(RECORDS[1])
    assert read_journal(path) == Journal(RECORDS[:2])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=True, timeout=600)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", mount], check=True, timeout=600)


@AS_ROOT
def test_on_a_full_disk_the_reserve_carries_the_run_home(small_disk: Path) -> None:
    path = small_disk / "journal"
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        _fill(small_disk / "other")
        with pytest.raises(StepFailed, match="No space left"):
            journal.append(record(2, payload={"before-images": "x" * 2_000_000}))

        for seq in range(2, 40):
            journal.append(record(seq, Mark.UNDOING, error="no space left " * 10))
    assert len(read_journal(path).records) == 39


@AS_ROOT
def test_on_a_disk_that_was_full_before_nothing_is_begun(small_disk: Path) -> None:
    path = small_disk / "journal"
    _fill(small_disk / "other")
    with FileJournal(path) as journal:
        with pytest.raises(StepFailed, match="No space left"):
            journal.append(record(1))
        assert journal.load() == Journal()

        (small_disk / "other").unlink()
        journal.append(record(1))
    assert read_journal(path) == Journal(RECORDS[:1])


@pytest.mark.parametrize("by", ["record", "heartbeat"])
def test_a_journal_whose_directory_was_removed_is_back_as_a_whole_with_its_reserve(tmp_path: Path, by: str) -> None:
    path = tmp_path / "runs" / "run-1" / "journal"
    path.parent.mkdir(parents=True)
    with FileJournal(path) as journal:
        journal.put_back()
        journal.append(RECORDS[0])
        shutil.rmtree(tmp_path / "runs")

        if by == "heartbeat":
            journal.put_back()
            assert read_journal(path) == Journal(RECORDS[:1])
        journal.append(RECORDS[1])

        assert read_journal(path) == Journal(RECORDS[:2])
        assert [each.stat().st_mode & 0o777 for each in (path.parents[1], path.parent, path)] == [0o700, 0o700, 0o600]
        assert path.with_name("journal.reserve").stat().st_blocks * 512 >= RESERVE_BYTES
        with pytest.raises(BusyError):
            FileJournal(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["journal"]


@pytest.mark.parametrize("by", ["record", "heartbeat"])
@pytest.mark.parametrize("kind", ["older copy", "link"])
def test_what_lies_in_place_of_a_journal_is_replaced_by_it(path: Path, tmp_path: Path, by: str, kind: str) -> None:
    """A backup that was restored, for example. Whoever reads the journal would see an earlier state of the run."""
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        other = tmp_path / "other"
        other.write_bytes(b"")
        if kind == "link":
            path.unlink()
            path.symlink_to(other)
        else:
            other.rename(path)

        if by == "heartbeat":
            journal.put_back()
            assert read_journal(path) == Journal(RECORDS[:1])
        journal.append(RECORDS[1])

        assert read_journal(path) == Journal(RECORDS[:2])
        with pytest.raises(BusyError):
            FileJournal(path)
    assert other.read_bytes() == b"" if kind == "link" else not other.exists()


def test_a_journal_goes_on_although_its_place_is_taken_by_a_directory(path: Path) -> None:
    """It cannot be replaced, and the run must not depend on it; once the place is free, the journal is there again."""
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        path.unlink()
        path.mkdir()
        journal.append(RECORDS[1])
        journal.put_back()
        path.rmdir()
        journal.put_back()
        assert read_journal(path) == Journal(RECORDS[:2])


def test_a_journal_without_a_record_is_not_made_again(path: Path) -> None:
    """Its run has not begun, and somebody may have meant it."""
    with FileJournal(path) as journal:
        path.unlink()
        journal.put_back()
        assert not path.exists()


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_journal_that_cannot_be_made_again_leaves_nothing_and_is_tried_again(
    path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written of it would take space that the run may need."""
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
        path.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, _fail)
            journal.put_back()
            with pytest.raises(StepFailed, match="cannot write the journal"):
                journal.append(RECORDS[1])
        assert [entry.name for entry in path.parent.iterdir()] == ["journal.reserve"]

        journal.append(RECORDS[1])
    assert read_journal(path) == Journal(RECORDS[:2])


def _fail(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _half_then_fail(write: object) -> object:
    """A call that writes half of what it is given, if anything, and then fails."""

    def call(descriptor: int, data: bytes | memoryview = b"") -> int:
        if data:
            write(descriptor, bytes(data)[: len(data) // 2])  # type: ignore[operator]
        return _fail()

    return call


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@AS_ROOT
def test_a_journal_on_a_disk_that_became_read_only_is_locked_and_read_all_the_same(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True)
    try:
        path = tmp_path / "journal"
        with FileJournal(path) as journal:
            journal.append(RECORDS[0])
        path.write_bytes(path.read_bytes() + render(RECORDS[1])[:-7])
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)

        with FileJournal(path) as journal:
            assert journal.load() == Journal(RECORDS[:1])
            with pytest.raises(StepFailed, match="cannot write the journal"):
                journal.append(RECORDS[1])
            with pytest.raises(BusyError):
                FileJournal(path)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_journal_that_a_stranger_has_locked_is_taken_over_by_a_copy(path: Path) -> None:
    """Whoever may read it may lock it as well; once an executor has died, nobody else could."""
    with FileJournal(path) as journal:
        journal.append(RECORDS[0])
    with path.open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(BusyError):
            FileJournal(path)

        with FileJournal(path, seize=True) as journal:
            assert journal.load() == Journal(RECORDS[:1])
            journal.append(RECORDS[1])
            with pytest.raises(BusyError):
                FileJournal(path)

    assert read_journal(path) == Journal(RECORDS[:2])
    assert [entry.name for entry in path.parent.iterdir()] == ["journal"]
