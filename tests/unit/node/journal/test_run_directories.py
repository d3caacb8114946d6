"""Tests for the directories of runs: plans, journals, and retention."""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from nodeupgrade.api.values import RunId
from nodeupgrade.errors import Inconsistent, StepFailed
from nodeupgrade.node.journal.journal import Mark, render
from nodeupgrade.node.journal.run_directories import PLAN, RunStore
from nodeupgrade.node.journal.run_store import JOURNAL
from nodeupgrade.node.plan.plan import RunPlan
from tests.builders.journal_records import RECORDS, record
from tests.builders.other_files import KINDS, put_in_place
from tests.doubles.node import SimulatedNode, plan_for, pod_json


@cache
def plan(run: str = "run-1") -> RunPlan:
    return plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")]), "v1.33.13", run=run)


def test_a_killed_writers_reserve_is_given_up_once_its_run_is_over(tmp_path: Path) -> None:
    runs = RunStore(tmp_path / "runs")
    for run, mark in (("over", Mark.FINISHED), ("unfinished", Mark.DONE)):
        runs.write_plan(plan(run))
        with runs.open_journal(RunId(run)) as journal:
            journal.append(record(1, mark))
        (tmp_path / "runs" / run / "journal.reserve").touch()

    runs.retire()

    assert [path.parent.name for path in tmp_path.glob("runs/*/journal.reserve")] == ["unfinished"]


def test_what_a_killed_executor_left_in_memory_goes_once_its_run_is_over(tmp_path: Path) -> None:
    """A journal's copy has before-images, and was found on a node whose executor was stopped as it recorded the end."""
    runs, memory = RunStore(tmp_path / "runs", mount=tmp_path), tmp_path / "run"
    memory.mkdir()
    for run, mark in (("over", Mark.FINISHED), ("unfinished", Mark.DONE)):
        runs.write_plan(plan(run))
        with runs.open_journal(RunId(run)) as journal:
            journal.append(record(1, mark))
        for name in ("journal", "kubelet.json", "rescue"):
            (memory / f"nodeupgrade-{name}-{run}").touch()

    runs.retire()

    assert {path.name.rpartition("-")[2] for path in memory.iterdir()} == {"unfinished"}
    assert len([*memory.iterdir()]) == 3


@pytest.mark.parametrize(
    ("written", "copied", "read"),
    [
        ((Mark.DOING,), (Mark.DOING, Mark.UNDO_FAILED), (Mark.DOING, Mark.UNDO_FAILED)),
        ((Mark.DOING, Mark.DONE), (Mark.DOING, Mark.FAILED), (Mark.DOING, Mark.FAILED)),
        ((Mark.DOING, Mark.DONE), (Mark.DOING,), (Mark.DOING, Mark.DONE)),
        ((Mark.DOING, Mark.DONE), (), (Mark.DOING, Mark.DONE)),
        ((Mark.DOING, Mark.FINISHED), (Mark.DOING, Mark.UNDO_FAILED), (Mark.DOING, Mark.FINISHED)),
    ],
)
def test_what_the_disk_did_not_take_is_read_as_well(
    tmp_path: Path, written: tuple[Mark, ...], copied: tuple[Mark, ...], read: tuple[Mark, ...]
) -> None:
    """With all of /var read-only, a run that could put nothing back waited, and nobody was told for what."""
    runs, memory = RunStore(tmp_path / "runs", mount=tmp_path), tmp_path / "run"
    memory.mkdir()
    runs.write_plan(plan("run-1"))
    with runs.open_journal(RunId("run-1")) as journal:
        for number, mark in enumerate(written, 1):
            journal.append(record(number, mark))
    copy = b"".join(render(record(number, mark)) for number, mark in enumerate(copied, 1))
    (memory / "nodeupgrade-journal-run-1").write_bytes(copy)

    assert tuple(each.mark for each in runs.read_journal(RunId("run-1")).records) == read


def test_a_copy_that_is_damaged_hides_no_journal(tmp_path: Path) -> None:
    runs, memory = RunStore(tmp_path / "runs", mount=tmp_path), tmp_path / "run"
    memory.mkdir()
    runs.write_plan(plan("run-1"))
    with runs.open_journal(RunId("run-1")) as journal:
        journal.append(record(1, Mark.DOING))
    (memory / "nodeupgrade-journal-run-1").write_bytes(b"x\n" + render(record(2, Mark.DONE)))

    assert len(runs.read_journal(RunId("run-1")).records) == 1


def test_a_run_whose_end_nobody_knows_stays_although_a_clock_was_set_back(tmp_path: Path) -> None:
    """Its agent may be lost before it reports, and the next one would begin anew what is done."""
    runs = RunStore(tmp_path, retained=2)
    for number, run in enumerate(("new", "before", "other", "last")):
        runs.write_plan(plan(run))
        with runs.open_journal(RunId(run)) as journal:
            journal.append(record(1, Mark.FINISHED))
        os.utime(tmp_path / run / "plan.json", (number, number))
        if run != "new":
            runs.mark_reported(RunId(run))

    runs.retire()

    assert {path.parent.name for path in tmp_path.glob("*/plan.json")} == {"new", "last"}


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
        (lambda text: json.dumps({**json.loads(text), "schema": 5}), "another schema than 4"),
        (lambda _: "[]", "another schema than 4"),
    ],
)
def test_a_plan_that_cannot_be_trusted_is_refused(tmp_path: Path, damage: "type[str]", message: str) -> None:
    runs = RunStore(tmp_path)
    runs.write_plan(plan())
    file = tmp_path / "run-1" / "plan.json"
    file.write_text(damage(file.read_text()))

    with pytest.raises(Inconsistent, match=message):
        runs.read_plan(RunId("run-1"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plan", "journal"])
def test_what_lies_in_place_of_a_plan_or_journal_is_named_and_not_believed(
    tmp_path: Path, name: str, kind: str
) -> None:
    """Neither hangs: a FIFO would make who opens it wait for a writer. No run is hidden by it."""
    runs, run = RunStore(tmp_path / "runs", mount=tmp_path), RunId("run-1")
    runs.write_plan(plan())
    with runs.open_journal(run) as journal:
        journal.append(RECORDS[0])
    put_in_place(path := tmp_path / "runs" / run / {"plan": PLAN, "journal": JOURNAL}[name], kind)
    what = "symbolic link" if "l" in kind[:2] or kind.endswith("link") else "not a regular file"

    with pytest.raises(
        Inconsistent, match=rf"the {name} of run run-1 cannot be read: .*{what}.*/runs/run-1/{path.name}"
    ):
        (runs.read_plan if name == "plan" else runs.read_journal)(run)
    if name == "plan":
        assert runs.begun() == runs.unfinished() == run
    for question in (runs.begun, runs.unfinished) if name == "journal" else ():
        with pytest.raises(Inconsistent, match="cannot be read"):
            question()


def test_a_directory_of_runs_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_bytes(b"")

    with pytest.raises(Inconsistent, match=r"runs cannot be listed: .* \(/.*/runs\)"):
        RunStore(tmp_path / "runs").begun()


def test_the_plan_of_another_run_is_not_believed(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    for run in ("run-1", "run-2"):
        runs.write_plan(plan(run))
    (tmp_path / "run-1" / PLAN).replace(tmp_path / "run-2" / PLAN)

    with pytest.raises(Inconsistent, match="the plan of run run-2 is that of run-1"):
        runs.read_plan(RunId("run-2"))


@pytest.mark.parametrize("run", ["", "..", "../run-1", "a/b"])
def test_a_run_is_a_plain_name(tmp_path: Path, run: str) -> None:
    with pytest.raises(Inconsistent, match="not a plain file name"):
        RunStore(tmp_path).read_journal(RunId(run))


def test_the_oldest_finished_runs_go_and_nothing_else(tmp_path: Path) -> None:
    runs = RunStore(tmp_path, retained=2)
    for number in range(1, 7):
        run = RunId(f"run-{number}")
        runs.write_plan(replace(plan(), run_id=run))
        os.utime(tmp_path / run / "plan.json", (number, number))
        if number != 2:
            with runs.open_journal(run) as journal:
                journal.append(record(1, Mark.FINISHED))
            runs.mark_reported(run)
    (tmp_path / "run-1" / "journal").write_bytes(b"damaged\n" + render(RECORDS[1]))

    runs.retire()

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run-1", "run-2", "run-5", "run-6"]
    assert runs.unfinished() == "run-2"


def test_an_old_journal_that_the_disk_does_not_give_back_is_named_and_keeps_no_run_from_ending(tmp_path: Path) -> None:
    runs = RunStore(tmp_path, retained=1)
    for number, run in enumerate(("lost", "old", "new")):
        runs.write_plan(plan(run))
        os.utime(tmp_path / run / "plan.json", (number, number))
        with runs.open_journal(RunId(run)) as journal:
            journal.append(record(1, Mark.FINISHED))
        runs.mark_reported(RunId(run))
    (tmp_path / "lost" / "journal").unlink()
    (tmp_path / "lost" / "journal").mkdir()  # as unreadable as one on a bad sector

    for question in (runs.begun, runs.begun_runs, runs.plans_not_begun):
        with pytest.raises(Inconsistent, match="the journal of run lost cannot be read"):
            question()

    runs.retire()

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lost", "new"]


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

    with runs.open_journal(RunId("run-1")), pytest.raises(Inconsistent, match="just beginning"):
        runs.discard(RunId("run-1"))
    assert runs.read_plan(RunId("run-1")) is not None

    runs.discard(RunId("run-1"))
    runs.discard(RunId("run-1"))
    assert runs.read_plan(RunId("run-1")) is None
    assert runs.plans_not_begun() == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_in_place_of_a_plan_that_nobody_began_goes_or_is_named(tmp_path: Path, kind: str) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    put_in_place(tmp_path / run / PLAN, kind)

    if kind == "directory":
        with pytest.raises(StepFailed, match=r"cannot remove /.*/runs/run-1/plan\.json because"):
            runs.discard(run)
    else:
        runs.discard(run)
        assert runs.plans_not_begun() == []


def test_attempts_stay_in_order_whatever_the_clock_said(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    for time, run in ((5, "b-1.1"), (4, "b-1.2"), (3, "b-1.10"), (2, "a-1.1"), (6, "c-1.1")):
        runs.write_plan(plan(run))
        os.utime(tmp_path / run / "plan.json", (time, time))

    assert runs.attempts(RunId("b-1")) == ["b-1.1", "b-1.2", "b-1.10"]
    assert runs.plans_not_begun() == ["a-1.1", "b-1.1", "b-1.2", "b-1.10", "c-1.1"]
    assert runs.unfinished() == "c-1.1"


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
    assert runs.attempts(RunId("a-1")) == ["a-1.1", "a-1.2"]
