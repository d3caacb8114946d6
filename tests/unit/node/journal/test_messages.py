"""What agent and executor tell one another about a run."""

from functools import cache
from pathlib import Path

import pytest

from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.plan.plan import AwaitedContainer, Newcomers, RunPlan, ShownKubelet
from tests.doubles.node import SimulatedNode, plan_for, pod_json


@cache
def plan() -> RunPlan:
    return plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")]), "v1.33.13", run="run-1")


def test_agent_and_executor_talk_about_deleted_pods(tmp_path: Path) -> None:
    runs, run = RunStore(tmp_path), RunId("run-1")
    runs.write_plan(plan())
    assert not runs.deleted_pods_wanted(run)

    assert runs.ask_for_deleted_pods(run) == frozenset()
    assert runs.deleted_pods_wanted(run)
    runs.report_deleted(run, [PodUid("a")])
    runs.report_deleted(run, [])
    runs.report_deleted(run, [PodUid("b")])

    assert runs.ask_for_deleted_pods(run) == {"a", "b"}


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
