"""Monitors that answer a restarted runtime late: with more time nothing is lost, and it can always be started."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Outcome, parse
from nodeupgrade.node.runtimes.description import RestartTuning
from tests.crash.harness import WAYS, World, forward, wrongs
from tests.doubles.node import Moment
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT, TUNED_CONFIG, TUNING_DROP_IN


def slow(after: World, seconds: float = 7.0) -> World:
    """One container's monitor answers that late."""
    after.node.runtime.troubles.slow_monitors = {after.plan.containers[0].id: seconds}
    return after


@pytest.mark.parametrize(("seconds", "outcome"), [(7.0, Outcome.UPGRADED), (12.0, Outcome.ROLLED_BACK)])
def test_a_slow_monitor_costs_no_container(seconds: float, outcome: Outcome) -> None:
    """What leaves too little of the budget for the way back turns the run back, and nothing is lost."""
    after = slow(forward(), seconds).run()

    assert after.report is not None
    assert (after.report.outcome, after.report.restarted) == (outcome, 0)
    assert wrongs(after, restarts_allowed=False) == []


def test_without_more_time_it_costs_its_container() -> None:
    """The control; and the record says that there was no more time, and why."""
    untold = RestartTuning(why="monitors get no more time than usual: nobody asked")
    after = slow(forward())
    after.plan = replace(after.plan, tuning=untold)

    after.run()

    assert after.report is not None
    assert (after.report.outcome, after.report.restarted) == (Outcome.ROLLED_BACK, 1)
    assert parse(after.node.journal.data)[0].payload(Step.ARM_DEAD_MAN) == {"tuning": untold.why}


@WAYS
def test_the_runtime_can_be_started_at_any_moment(make: Callable[[], World]) -> None:
    """Whoever restarts it, and whenever: what systemd knows of it names no file that is not there."""
    after = make()
    services, disk = after.node.services, after.node.disk
    given, missing = set(), []

    def look(name: str, number: int, moment: Moment) -> None:
        given.add((TUNING_DROP_IN in disk, TUNED_CONFIG in disk))
        if services.missing_config is not None:
            missing.append(f"{moment} {name} ({number})")

    after.run(look)

    assert missing == []
    assert (True, True) in given, "nothing was raised, so that nothing was tried"
    assert services.status(RUNTIME_UNIT).command == ("/usr/bin/containerd",)
