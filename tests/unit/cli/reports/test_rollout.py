"""Tests what is still known of the nodes of a rollout, and from where."""

from dataclasses import replace
from datetime import timedelta

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import PastRun, TaskAction, UpgradeRef
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.status import Counts, NodeFailure
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.cli.reports.rollout import RolloutReport, rollout_report
from tests.builders.finished_rollouts import BEGAN, finished_rollout, finished_task, finished_tasks

NOW = BEGAN + timedelta(days=30)


def past(result: Verdict, uid: str = "uid-of-up") -> PastRun:
    return PastRun(
        upgrade="up",
        upgrade_uid=uid,
        wave="all",
        from_version="v1.30.14",
        to_version="v1.33.13",
        result=result,
        time=BEGAN,
    )


def of_another(task: Task, *history: PastRun) -> Task:
    spec = replace(task.spec, upgrade_ref=UpgradeRef(name="later", uid="uid-of-later"), history=history)
    return replace(task, spec=spec)


def states(report: RolloutReport) -> dict[str, str]:
    return {each.node: each.state for each in report.nodes}


def test_a_node_that_a_later_rollout_took_over_is_known_from_its_history() -> None:
    kept, taken, never = finished_tasks(3, at_once=1)
    later = of_another(taken, past(Verdict.FAILED), past(Verdict.SUCCEEDED), past(Verdict.REFUSED, "uid-of-third"))

    report = rollout_report(finished_rollout([kept, taken]), [kept, later, of_another(never)], NOW)

    assert states(report) == {kept.name: "Succeeded", taken.name: "Succeeded"}
    assert [(each.node, each.run.result) for each in report.earlier] == [(taken.name, Verdict.FAILED)]
    assert report.unrecorded == 0


def test_a_node_without_a_task_is_known_if_it_failed_and_counted_if_not() -> None:
    (kept,) = tasks = finished_tasks(1, at_once=1)
    upgrade = finished_rollout(tasks)
    failure = NodeFailure(
        node=NodeName("gone"), reason="KubeletDidNotStart", outcome=Verdict.ROLLED_BACK, wave="all", time=BEGAN
    )
    counts = Counts(total=5, succeeded=3, rolled_back=1, skipped=1)
    upgrade = replace(upgrade, status=replace(upgrade.status, counts=counts, failures=(failure,)))

    report = rollout_report(upgrade, tasks, NOW)

    assert states(report) == {kept.name: "Succeeded", "gone": "RolledBack"}
    assert report.unrecorded == 2


def test_nodes_without_a_run_wait_or_were_never_started() -> None:
    done, waiting, released = finished_tasks(3, at_once=1)
    waiting = replace(waiting, spec=replace(waiting.spec, action=TaskAction.WAIT, run_id=RunId("run-9")))
    released = replace(released, spec=replace(released.spec, run_id=RunId("run-9")), status=TaskStatus())
    upgrade = finished_rollout([done])
    running = replace(upgrade, status=replace(upgrade.status, completed_at=None))

    found = [states(rollout_report(each, [done, waiting, released], NOW))[waiting.name] for each in (running, upgrade)]

    assert found == ["Waiting", "NotStarted"]
    assert released.name not in states(rollout_report(upgrade, [done, waiting, released], NOW))


def test_nodes_are_in_the_order_of_waves_and_times() -> None:
    late, early = finished_task("a", BEGAN + timedelta(minutes=9)), finished_task("b", BEGAN)
    other = finished_task("c", BEGAN - timedelta(days=1))
    other = replace(other, spec=replace(other.spec, wave="unknown"))

    report = rollout_report(finished_rollout([late, early]), [other, late, early], NOW)

    assert [each.node for each in report.nodes] == ["b", "a", "c"]
    assert report.down_seconds is not None
    assert report.down_seconds[0] == 0.9
