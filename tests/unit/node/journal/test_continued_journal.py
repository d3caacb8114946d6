"""A journal whose disk can no longer be written: what must not get lost is refused, everything else is kept."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.journal.continued_journal import ContinuedJournal
from nodeupgrade.node.journal.journal import Mark, Record
from tests.doubles.node import Moment, SimulatedNode

PATH = PurePosixPath("/run/nodeupgrade-journal-run-1")


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(version="v1.30.14", pods=[])


def journal_of(node: SimulatedNode) -> ContinuedJournal:
    return ContinuedJournal(node.journal, node.files, PATH)


def record(seq: int, mark: Mark, step: Step | None = Step.SWAP_BINARY) -> Record:
    return Record(seq=seq, mark=mark, step=step, boot=BootIdentity("b"), at="2026-01-01T00:00:00Z", monotonic=seq)


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
    assert str(PATH) not in node.disk


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


def test_what_the_disk_has_after_all_is_not_counted_twice(node: SimulatedNode) -> None:
    journal = journal_of(node)
    node.calls.interrupt = read_only
    journal.append(record(1, Mark.FAILED))
    node.calls.interrupt = lambda *_: None
    node.journal.append(record(1, Mark.FAILED))

    assert [r.seq for r in journal_of(node).load().records] == [1]
