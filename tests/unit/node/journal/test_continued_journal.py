"""A journal whose disk can no longer be written: what must not get lost is refused, everything else is kept."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.journal import continued_journal
from nodeupgrade.node.journal.continued_journal import ContinuedJournal
from nodeupgrade.node.journal.journal import Mark, Record, render
from nodeupgrade.node.journal.journal_file import FileJournal, read_journal
from tests.doubles.node import Moment, SimulatedNode

BOOT = BootIdentity("b")
PATH = PurePosixPath("/run/nodeupgrade-journal-run-1")


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(version="v1.30.14", pods=[])


def journal_of(node: SimulatedNode) -> ContinuedJournal:
    return ContinuedJournal(node.journal, node.files, PATH, BOOT)


def record(seq: int, mark: Mark, step: Step | None = Step.SWAP_BINARY) -> Record:
    return Record(seq=seq, mark=mark, step=step, boot=BOOT, at="2026-01-01T00:00:00Z", monotonic=seq)


def read_only(name: str, _number: int, moment: Moment) -> None:
    if name.startswith("journal.append") and moment is Moment.BEFORE:
        raise StepFailed("read-only file system")


def full_too(name: str, number: int, moment: Moment) -> None:
    read_only(name, number, moment)
    if name == f"files.write {PATH}" and moment is Moment.BEFORE:
        raise StepFailed("no space left on device")


@pytest.mark.parametrize(("mark", "step"), [(Mark.DOING, Step.SWAP_BINARY), (Mark.DONE, COMMIT), (Mark.FINISHED, None)])
def test_nothing_is_announced_committed_or_ended_in_memory(node: SimulatedNode, mark: Mark, step: Step | None) -> None:
    node.calls.interrupt = read_only

    with pytest.raises(StepFailed, match="read-only"):
        journal_of(node).append(record(1, mark, step))


def test_what_a_rollback_writes_is_recorded_once_that_is_possible(node: SimulatedNode) -> None:
    journal = journal_of(node)
    journal.append(record(1, Mark.DOING))
    node.calls.interrupt = read_only
    journal.append(record(2, Mark.FAILED))
    journal.append(record(3, Mark.UNDOING))
    assert len(node.journal.load().records) == 1

    node.calls.interrupt = lambda *_: None
    journal.append(record(4, Mark.UNDONE))

    assert [r.seq for r in node.journal.load().records] == [1, 2, 3, 4]
    assert node.disk[str(PATH)] == b""


def test_an_executor_that_is_started_again_knows_it_too(node: SimulatedNode) -> None:
    journal = journal_of(node)
    journal.append(record(1, Mark.DOING))
    node.calls.interrupt = read_only
    journal.append(record(2, Mark.FAILED))

    assert [r.seq for r in journal_of(node).load().records] == [1, 2]


def test_where_run_is_full_it_is_kept_in_memory(node: SimulatedNode) -> None:
    journal = journal_of(node)
    node.calls.interrupt = full_too
    journal.append(record(1, Mark.FAILED))

    node.calls.interrupt = lambda *_: None
    journal.append(record(2, Mark.UNDOING))
    assert [r.seq for r in node.journal.load().records] == [1, 2]


def fills(node: SimulatedNode, journal: ContinuedJournal) -> None:
    node.calls.interrupt = full_too
    journal.append(record(2, Mark.FAILED))
    node.calls.interrupt = lambda *_: None


def too_large(node: SimulatedNode, _journal: ContinuedJournal) -> None:
    def interrupt(name: str, _number: int, moment: Moment) -> None:
        if name == f"files.read {PATH}" and moment is Moment.READING:
            raise StepFailed("it is larger than 67108864 bytes")

    node.calls.interrupt = interrupt


def cleans(node: SimulatedNode, _journal: ContinuedJournal) -> None:
    del node.disk[str(PATH)]


@pytest.mark.parametrize("lose", [fills, too_large, cleans])
@pytest.mark.parametrize("mark", [Mark.DOING, Mark.DONE])
def test_an_executor_that_may_have_lost_a_record_turns_back(
    node: SimulatedNode, mark: Mark, lose: Callable[[SimulatedNode, ContinuedJournal], None]
) -> None:
    """What the disk says is done may be undone by now: going forward, it would rewrite hashes under a kubelet."""
    journal = journal_of(node)
    journal.append(record(1, mark))
    lose(node, journal)

    first, last = journal_of(node).load().records

    assert (first.mark, last.mark, last.step, last.reason) == (mark, Mark.FAILED, first.step, Reason.EXECUTOR_LOST)
    assert len(journal_of(node).load().records) == 2


@pytest.mark.parametrize(
    ("mark", "step", "boot"),
    [
        (Mark.DOING, Step.SWAP_BINARY, BootIdentity("earlier")),
        (Mark.DONE, COMMIT, BOOT),
        (Mark.UNDONE, Step.SWAP_BINARY, BOOT),
        (Mark.FINISHED, None, BOOT),
    ],
)
def test_nothing_is_lost_that_counts_after_a_reboot_the_commit_or_a_failure(
    node: SimulatedNode, mark: Mark, step: Step | None, boot: BootIdentity
) -> None:
    journal = journal_of(node)
    journal.append(replace(record(1, mark, step), boot=boot))
    cleans(node, journal)

    assert [r.mark for r in journal_of(node).load().records] == [mark]


def test_what_the_disk_has_after_all_is_not_counted_twice(node: SimulatedNode) -> None:
    journal = journal_of(node)
    node.calls.interrupt = read_only
    journal.append(record(1, Mark.FAILED))
    node.calls.interrupt = lambda *_: None
    node.journal.append(record(1, Mark.FAILED))

    assert [r.seq for r in journal_of(node).load().records] == [1]


def test_before_images_do_not_stay_in_memory_once_the_run_is_over(node: SimulatedNode) -> None:
    node.disk[str(PATH)] = b"left by an executor that was killed"

    journal_of(node).scrub()

    assert str(PATH) not in node.disk


@dataclass(slots=True)
class FailingDisk:
    """A disk whose file system becomes read-only when a write cannot be made durable; what was written can be read."""

    fails: bool = False
    is_read_only: bool = False

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._require_writable()
        return os.open(path, flags, mode)

    def write(self, descriptor: int, data: bytes) -> int:
        self._require_writable()
        return os.write(descriptor, data)

    def ftruncate(self, descriptor: int, length: int) -> None:
        self._require_writable()
        os.ftruncate(descriptor, length)

    def fdatasync(self, descriptor: int) -> None:
        if self.fails:
            self.is_read_only = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(descriptor)

    def _require_writable(self) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("mark", [Mark.DOING, Mark.FAILED])
@pytest.mark.parametrize("again", [False, True], ids=["same executor", "started again"])
def test_a_line_that_stays_although_it_was_not_written_counts_once(tmp_path: Path, mark: Mark, again: bool) -> None:
    disk, path = FailingDisk(), tmp_path / "journal"
    records = [record(1, Mark.DOING), record(2, Mark.FAILED, Step.START_KUBELET), record(3, Mark.UNDOING)]

    def opened() -> tuple[FileJournal, ContinuedJournal]:
        file = FileJournal(path, disk=cast("Disk", disk))
        return file, ContinuedJournal(file, HostFiles(tmp_path), PATH, BOOT)

    file, journal = opened()
    journal.append(records[0])
    disk.fails = True
    with suppress(StepFailed):
        journal.append(record(2, mark, Step.START_KUBELET))
    if mark is Mark.DOING:
        journal.append(records[1])
    journal.append(records[2])
    assert len(path.read_bytes().splitlines()) > 1
    if again:
        file.close()
        file, journal = opened()
        assert [*journal.load().records] == records
        file.close()

    disk.fails = disk.is_read_only = False
    if again:
        file, journal = opened()
        assert [*journal.load().records] == records
    journal.append(record(4, Mark.UNDONE))
    file.close()
    assert [r.mark for r in read_journal(path).records] == [Mark.DOING, Mark.FAILED, Mark.UNDOING, Mark.UNDONE]


def test_what_is_in_memory_is_not_rendered_again_with_each_record(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the before-images of 250 containers that takes a tenth of a second, while no kubelet runs."""
    journal, rendered = journal_of(node), list[int]()

    def counted(one: Record) -> bytes:
        rendered.append(one.seq)
        return render(one)

    journal.append(record(1, Mark.DOING))
    node.calls.interrupt = read_only
    monkeypatch.setattr(continued_journal, "render", counted)
    for seq in (2, 3, 4):
        journal.append(record(seq, Mark.UNDONE))
    again = journal_of(node)
    again.load()
    again.append(record(5, Mark.UNDONE))

    assert rendered == [1, 2, 3, 4, 5]
    assert [r.seq for r in journal_of(node).load().records] == [1, 2, 3, 4, 5]
