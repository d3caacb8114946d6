"""What agent and executor tell one another about a run."""

import errno
import os
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import pytest

from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.cluster.owner_changes import ContainerSpec, Evidence
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.messages import ABORT, LARGEST_MESSAGE, PLANNED_ARRIVALS
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.journal.run_store import END, GO_ON, KUBELET, RESCUE, TROUBLE, Rescue
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.plan import AwaitedContainer, Newcomers, RunPlan, ShownKubelet
from tests.builders.other_files import KINDS, put_in_place
from tests.doubles.node import SimulatedNode, plan_for, pod_json


class FullBelow:
    """The system calls of this machine, where no file can be made below a directory any more."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: PurePath, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and path.is_relative_to(self._directory):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.open(path, flags, mode)


@cache
def plan() -> RunPlan:
    return plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")]), "v1.33.13", run="run-1")


def test_agent_and_executor_talk_about_what_owners_changed(tmp_path: Path) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert not runs.owner_changes_wanted(run)
    image = ContainerSpec(pod=PodUid("c"), name="main", image="new", resources="")

    assert runs.ask_for_owner_changes(run) == Evidence()
    assert runs.owner_changes_wanted(run)
    runs.report_owner_changes(run, Evidence(deleted=(PodUid("a"),)))
    runs.report_owner_changes(run, Evidence())
    runs.report_owner_changes(run, Evidence(deleted=(PodUid("b"),), specs=(image,)))

    assert runs.ask_for_owner_changes(run) == Evidence(deleted=(PodUid("a"), PodUid("b")), specs=(image,))


def test_agent_and_executor_talk_about_what_came_before_the_stop(tmp_path: Path) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert runs.arrivals(run) is None

    asked = Arrivals(schema=1, run_id=run, inventory=plan().baseline)
    assert runs.ask_for_plan(run, asked) is None
    assert runs.arrivals(run) == asked
    told = PlannedArrivals(schema=1, run_id=run, asked=(), containers=plan().containers)
    runs.report_planned(run, told)
    assert runs.ask_for_plan(run, asked) == told

    answer = tmp_path / run / PLANNED_ARRIVALS
    assert answer.stat().st_mode & 0o777 == 0o600
    answer.write_bytes(answer.read_bytes() + b" " * LARGEST_MESSAGE)
    assert runs.ask_for_plan(run, asked) is None


def test_agent_and_executor_talk_about_pods_that_came(tmp_path: Path) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert not runs.newcomers_wanted(run)

    assert runs.ask_for_newcomers(run) is None
    assert runs.newcomers_wanted(run)
    app = AwaitedContainer(pod=PodUid("a"), name="app", before=HashValue("1"), after=HashValue("2"))
    runs.report_newcomers(run, Newcomers())
    assert runs.ask_for_newcomers(run) == Newcomers()
    runs.report_newcomers(run, told := Newcomers(pods=(PodUid("a"),), containers=(app,)))

    assert runs.ask_for_newcomers(run) == told


def test_the_executor_hears_what_the_api_server_shows_of_the_kubelet(tmp_path: Path) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert runs.shown_kubelet(run) is None

    runs.report_kubelet(run, ShownKubelet(at=1.5, answered=False))
    runs.report_kubelet(run, told := ShownKubelet(at=2.0, answered=True, version="v1.33.13"))
    assert runs.shown_kubelet(run) == told

    (tmp_path / run / "kubelet.json").write_bytes(b'{"at": "now"')
    assert runs.shown_kubelet(run) is None


@pytest.mark.parametrize("damage", [b"", b'{"pods": ["a"', b"null", b'{"pods": 1}', b'{"strange": []}', b"\xff"])
def test_a_word_about_pods_that_came_counts_if_it_is_whole(tmp_path: Path, damage: bytes) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    runs.report_newcomers(run, Newcomers(pods=(PodUid("a"),)))
    (tmp_path / run / "newcomers.json").write_bytes(damage)

    assert runs.ask_for_newcomers(run) is None

    runs.report_newcomers(run, told := Newcomers(pods=(PodUid("b"),)))
    assert runs.ask_for_newcomers(run) == told


@pytest.mark.parametrize(
    ("on_disk", "in_memory", "progress"),
    [
        (None, None, Rescue.NONE),
        ("begun\n", None, Rescue.BEGUN),
        (None, "begun\n", Rescue.BEGUN),
        ("", "done\n", Rescue.DONE),
        ("begun\n", "done\n", Rescue.DONE),
        ("done\n", None, Rescue.DONE),
        ("do", None, Rescue.BEGUN),
    ],
)
def test_the_rescue_may_have_written_its_progress_in_memory(
    tmp_path: Path, on_disk: str | None, in_memory: str | None, progress: Rescue
) -> None:
    """Where the run's directory could not be written, or not to the end."""
    runs, run = RunStore(tmp_path, mount=tmp_path), RunId("run-1")
    runs.write_plan(plan())
    for path, word in ((tmp_path / run / RESCUE, on_disk), (tmp_path / f"run/nodeupgrade-rescue-{run}", in_memory)):
        if word is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_text(word)

    assert runs.rescue(run) is progress


@pytest.mark.parametrize("kind", ["loop", "directory", "FIFO"])
def test_what_cannot_be_read_of_rescue_and_people_ends_no_executor(tmp_path: Path, kind: str) -> None:
    """It would be ended again and again, with the kubelet stopped. The script may have begun; nobody asked for more."""
    runs, run = RunStore(tmp_path, mount=tmp_path), RunId("run-1")
    (tmp_path / run).mkdir()
    for path in (tmp_path / run / name for name in (RESCUE, ABORT, GO_ON, END)):
        match kind:
            case "loop":
                path.symlink_to(path)
            case "directory":
                path.mkdir()
            case _:
                os.mkfifo(path)

    assert runs.rescue(run) is Rescue.UNREADABLE
    assert runs.abort_requested(run) is runs.go_on(run) is runs.end(run) is (kind != "loop")


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_in_place_of_trouble_is_trouble(tmp_path: Path, kind: str) -> None:
    """The executor may have put it there, and cannot any more."""
    runs, run = RunStore(tmp_path), RunId("run-1")
    (tmp_path / run).mkdir()
    put_in_place(tmp_path / run / TROUBLE, kind)

    assert f"{run}/trouble" in (runs.trouble(run) or "")


@pytest.mark.parametrize("full", ["runs", ""], ids=["the disk is full", "nothing can be written"])
def test_trouble_is_told_in_memory_where_the_disk_is_full(tmp_path: Path, full: str) -> None:
    (tmp_path / "run").mkdir()
    runs, run = RunStore(tmp_path / "runs", mount=tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert runs.trouble(run) is None

    RunStore(tmp_path / "runs", mount=tmp_path, disk=FullBelow(tmp_path / full)).report_trouble(run, "odd journal")

    assert runs.trouble(run) == ("odd journal" if full else None)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [f"nodeupgrade-trouble-{run}"] * bool(full)
    runs.report_trouble(run, "odd plan")
    assert runs.trouble(run) == "odd plan"


def test_a_full_disk_does_not_keep_the_agent_from_reporting_the_new_kubelet(tmp_path: Path) -> None:
    """A run that hears of no agent turns back."""
    (tmp_path / "run").mkdir()
    runs, run = RunStore(tmp_path / "runs", mount=tmp_path), RunId("run-1")
    runs.write_plan(plan())
    runs.report_kubelet(run, ShownKubelet(at=1.0, answered=False))
    full = RunStore(tmp_path / "runs", mount=tmp_path, disk=FullBelow(tmp_path / "runs"))

    full.report_kubelet(run, shown := ShownKubelet(at=2.0, answered=True, version="v1.33.13"))

    assert runs.shown_kubelet(run) == shown
    runs.report_kubelet(run, later := ShownKubelet(at=3.0, answered=True, version="v1.33.13"))
    assert runs.shown_kubelet(run) == later
    assert (tmp_path / "run" / f"nodeupgrade-{KUBELET}-{run}").stat().st_mode & 0o777 == 0o600
