import errno
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity, RunId
from nodeupgrade.errors import Inconsistent, StepFailed
from nodeupgrade.node.journal.journal import Journal, Mark, Record, render
from nodeupgrade.node.journal.journal_file import FileJournal, read_journal
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.journal.run_store import BusyError
from nodeupgrade.node.plan.plan import RunPlan
from tests.doubles.node import SimulatedNode, plan_for, pod_json

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def record(seq: int, mark: Mark = Mark.DONE, **more: object) -> Record:
    step = None if mark is Mark.FINISHED else Step.SWAP_BINARY
    whole = Record(seq=seq, mark=mark, step=step, boot=BootIdentity("b"), at="t", monotonic=1.0)
    return replace(whole, **more)  # type: ignore[arg-type]


RECORDS = tuple(record(seq) for seq in (1, 2, 3))


@cache
def plan(run: str = "run-1") -> RunPlan:
    return plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")]), "v1.33.13", run=run)


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


def test_a_killed_writers_reserve_is_given_up_once_its_run_is_over(tmp_path: Path) -> None:
    runs = RunStore(tmp_path / "runs")
    for run, mark in (("over", Mark.FINISHED), ("unfinished", Mark.DONE)):
        runs.write_plan(plan(run))
        with runs.open_journal(RunId(run)) as journal:
            journal.append(record(1, mark))
        (tmp_path / "runs" / run / "journal.reserve").touch()

    runs.retire()

    assert [path.parent.name for path in tmp_path.glob("runs/*/journal.reserve")] == ["unfinished"]


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


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = RunStore(tmp_path / "state" / "runs")

    runs.write_plan(plan())

    assert runs.read_plan(RunId("run-1")) == plan()
    assert runs.read_plan(RunId("run-2")) is None
    assert runs.unfinished() == "run-1"
    assert (tmp_path / "state" / "runs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20], "damaged"),
        (lambda text: text.replace("v1.33.13", "v1.33.12"), "its checksum is wrong"),
        (lambda text: json.dumps({**json.loads(text), "schema": 3}), "another schema than 2"),
        (lambda _: "[]", "another schema than 2"),
    ],
)
def test_a_plan_that_cannot_be_trusted_is_refused(tmp_path: Path, damage: "type[str]", message: str) -> None:
    runs = RunStore(tmp_path)
    runs.write_plan(plan())
    file = tmp_path / "run-1" / "plan.json"
    file.write_text(damage(file.read_text()))

    with pytest.raises(Inconsistent, match=message):
        runs.read_plan(RunId("run-1"))


@pytest.mark.parametrize("run", ["", "..", "../run-1", "a/b"])
def test_a_run_is_a_plain_name(tmp_path: Path, run: str) -> None:
    with pytest.raises(Inconsistent, match="no plain name"):
        RunStore(tmp_path).read_journal(RunId(run))


def test_the_oldest_finished_runs_go_and_nothing_else(tmp_path: Path) -> None:
    runs = RunStore(tmp_path, kept=2)
    for number in range(1, 7):
        run = RunId(f"run-{number}")
        runs.write_plan(replace(plan(), run_id=run))
        os.utime(tmp_path / run / "plan.json", (number, number))
        if number != 2:
            with runs.open_journal(run) as journal:
                journal.append(record(1, Mark.FINISHED))
    (tmp_path / "run-1" / "journal").write_bytes(b"damaged\n" + render(RECORDS[1]))

    runs.retire()

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run-1", "run-2", "run-5", "run-6"]
    assert runs.unfinished() == "run-2"


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


def test_a_run_is_told_when_it_is_marked_so(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    runs.write_plan(plan())
    assert not runs.is_reported(RunId("run-1"))

    runs.mark_reported(RunId("run-1"))
    runs.mark_reported(RunId("run-1"))

    assert runs.is_reported(RunId("run-1"))
    runs.write_plan(plan())
    assert not runs.is_reported(RunId("run-1")), "planned anew, it has another end to tell"


def test_a_run_of_before_there_was_a_mark_counts_as_told(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    runs.write_plan(plan())
    (tmp_path / "run-1" / "untold").unlink()

    assert runs.is_reported(RunId("run-1"))


def test_a_plan_is_not_taken_from_under_an_executor(tmp_path: Path) -> None:
    """It has locked the journal, and is about to write its first record."""
    runs = RunStore(tmp_path)
    runs.write_plan(plan())

    with runs.open_journal(RunId("run-1")), pytest.raises(Inconsistent, match="just being begun"):
        runs.discard(RunId("run-1"))
    assert runs.read_plan(RunId("run-1")) is not None

    runs.discard(RunId("run-1"))
    runs.discard(RunId("run-1"))
    assert runs.read_plan(RunId("run-1")) is None
    assert runs.plans_not_begun() == []


def test_runs_are_told_apart_by_whether_they_were_begun(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    for number, run in enumerate(("a-1.1", "a-1.2", "b-1.1")):
        runs.write_plan(plan(run))
        os.utime(tmp_path / run / "plan.json", ns=(number, number))
    for run in ("a-1.1", "b-1.1"):
        with runs.open_journal(RunId(run)) as journal:
            journal.append(RECORDS[0])

    assert runs.begun_runs() == ["a-1.1", "b-1.1"]
    assert runs.plans_not_begun() == ["a-1.2"]
    assert runs.of(RunId("a-1")) == ["a-1.1", "a-1.2"]
