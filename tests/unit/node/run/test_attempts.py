"""Several attempts summed up: nothing that restarted is forgotten, and nothing is counted that was gone before."""

from dataclasses import replace

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.run.attempts import is_worth_another, summed_up
from nodeupgrade.node.run.report import RunReport

TURNED_BACK = RunReport(
    outcome=Outcome.ROLLED_BACK,
    reason=Reason.INVENTORY_CHANGED,
    message="2 containers changed",
    down_seconds=0.5,
    baseline=4,
    same=4,
    rewritten=0,
    restarted=0,
    listed=(),
    rebooted=False,
)
UPGRADED = replace(TURNED_BACK, outcome=Outcome.UPGRADED, reason=Reason.SUCCEEDED, rewritten=4, down_seconds=0.75)


def attempt(report: RunReport | None, *, stopped: bool = True) -> Journal:
    failed = Record(
        seq=1, mark=Mark.FAILED, step=Step.CONFIRM_INVENTORY, boot=BootIdentity("b"), at="t", monotonic=1.0,
    )  # fmt: skip
    end = replace(
        failed, seq=2, mark=Mark.FINISHED, step=None, payload=to_json(report, strict=True) if report else None
    )
    stop = (replace(failed, seq=0, mark=Mark.DOING, step=Step.STOP_KUBELET),) if stopped else ()
    return Journal((*stop, failed, end) if report else (*stop, failed))


def harmed(report: RunReport, *labels: str, more: int = 0) -> RunReport:
    restarted = len(labels) + more
    return replace(report, listed=labels, restarted=restarted, same=max(0, report.baseline - restarted))


def test_one_attempt_is_what_it_says() -> None:
    assert summed_up([attempt(UPGRADED)]) == UPGRADED
    assert summed_up([attempt(harmed(UPGRADED, "a", "b", more=3))]) == harmed(UPGRADED, "a", "b", more=3)


def test_an_attempt_that_goes_on_sums_up_to_nothing() -> None:
    assert summed_up([]) is None
    assert summed_up([attempt(harmed(TURNED_BACK, "a")), attempt(None)]) is None


@pytest.mark.parametrize(
    ("reports", "restarted", "listed", "same"),
    [
        ((harmed(TURNED_BACK, "a"), UPGRADED), 1, ("a",), 3),
        ((harmed(TURNED_BACK, "a"), harmed(UPGRADED, "b")), 2, ("a", "b"), 2),
        ((harmed(TURNED_BACK, "a"), harmed(UPGRADED, "a")), 1, ("a",), 3),
        ((harmed(TURNED_BACK, "a", more=30), harmed(TURNED_BACK, "b"), UPGRADED), 32, ("a", "b"), 0),
    ],
)
def test_what_restarted_adds_up(
    reports: tuple[RunReport, ...], restarted: int, listed: tuple[str, ...], same: int
) -> None:
    found = summed_up([attempt(report) for report in reports])

    assert found is not None
    assert (found.outcome, found.restarted, found.listed) == (Outcome.UPGRADED, restarted, listed)
    assert found.same == same


def test_no_more_is_listed_than_there_is_room_for() -> None:
    names = [f"pod-{number}" for number in range(30)]
    found = summed_up([attempt(harmed(TURNED_BACK, *names[:15])), attempt(harmed(UPGRADED, *names[15:]))])

    assert found is not None
    assert (found.restarted, len(found.listed)) == (30, 20)


def test_what_ended_by_itself_counts_if_it_restarts_later() -> None:
    before = attempt(replace(harmed(TURNED_BACK, "killed"), ended=("gone",)))

    once = summed_up([before, attempt(UPGRADED)])
    again = summed_up([before, attempt(harmed(UPGRADED, "gone"))])

    assert once is not None
    assert (once.restarted, once.listed, once.ended) == (1, ("killed",), ("gone",))
    assert again is not None
    assert (again.restarted, again.listed, again.ended) == (2, ("killed", "gone"), ())


@pytest.mark.parametrize(
    ("first", "stopped", "total"),
    [(0.5, True, 1.25), pytest.param(None, True, None, id="unknown"), pytest.param(None, False, 0.75, id="untouched")],
)
def test_the_time_without_a_kubelet_is_that_of_all_that_stopped_it(
    first: float | None, stopped: bool, total: float | None
) -> None:
    found = summed_up([attempt(replace(TURNED_BACK, down_seconds=first), stopped=stopped), attempt(UPGRADED)])

    assert found is not None
    assert found.down_seconds == total


def test_where_no_attempt_stopped_the_kubelet_there_is_no_time_without_it() -> None:
    found = summed_up([attempt(replace(TURNED_BACK, down_seconds=None), stopped=False)])

    assert found is not None
    assert found.down_seconds is None


def test_only_what_came_or_went_before_anything_was_done_is_worth_another() -> None:
    assert is_worth_another(attempt(TURNED_BACK))
    assert not is_worth_another(attempt(replace(TURNED_BACK, reason=Reason.CONTAINER_RESTARTED)))
    assert not is_worth_another(attempt(UPGRADED))
    assert not is_worth_another(attempt(None))
