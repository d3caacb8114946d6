"""When a node is looked at again that its agent refused; whole rollouts of it are told in the stories."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, PastRun, RunVerdict, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.findings.finding import PASSING
from nodeupgrade.fleet.failures import DELAYS, LAST_LOOKS, lingers, next_look

DECIDED = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = PastRun(upgrade="to-1-33", from_version="v1.30.14", to_version="v1.33.13", result=Verdict.REFUSED)


def refused(reason: Reason, *history: PastRun, outcome: Verdict = Verdict.REFUSED) -> Task:
    verdict = RunVerdict(run_id=RunId("run"), outcome=outcome, reason=reason, decided_at=DECIDED)
    spec = TaskSpec(
        node_name=NodeName("node-0"),
        node_uid="n",
        upgrade_ref=UpgradeRef(name=REFUSED.upgrade, uid="u"),
        run_id=RunId("run"),
        from_version=REFUSED.from_version,
        to_version=REFUSED.to_version,
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        verdict=verdict,
        history=history,
    )
    return Task(name=NodeName("node-0"), uid="t", resource_version="1", generation=1, spec=spec, status=TaskStatus())


@pytest.mark.parametrize("reason", Reason)
def test_only_for_reasons_that_pass(reason: Reason) -> None:
    assert next_look(refused(reason), None) == (DECIDED + DELAYS[0] if reason in PASSING else None)


@pytest.mark.parametrize("outcome", sorted(set(Verdict) - {Verdict.REFUSED}))
def test_only_after_a_refusal(outcome: Verdict) -> None:
    assert next_look(refused(Reason.POD_IN_TRANSITION, outcome=outcome), None) is None


def test_a_node_alone_ever_more_rarely_and_then_no_more() -> None:
    tasks = [refused(Reason.POD_IN_TRANSITION, *[REFUSED] * earlier) for earlier in range(len(DELAYS) + 1)]

    assert [next_look(task, None) for task in tasks] == [*(DECIDED + delay for delay in DELAYS), None]
    assert [lingers(task) for task in tasks] == [*[False] * len(DELAYS), True]
    assert sum(DELAYS, timedelta()) == timedelta(minutes=22)


@pytest.mark.parametrize("since", range(6))
def test_as_long_as_others_are_judged_and_then_three_more_times(since: int) -> None:
    """Of six refusals in a row, an hour apart, so many came after the last verdict on another node."""
    judged = DECIDED - timedelta(hours=since - 0.5)
    earlier = (replace(REFUSED, time=DECIDED - timedelta(hours=hours)) for hours in range(5, 0, -1))
    look = next_look(refused(Reason.INVENTORY_CHANGED, *earlier), judged)

    assert look == (DECIDED + DELAYS[-1] if since < LAST_LOOKS else None)


@pytest.mark.parametrize(
    "between",
    [
        replace(REFUSED, result=Verdict.ROLLED_BACK),
        replace(REFUSED, upgrade="another"),
        replace(REFUSED, to_version="v1.33.14"),
    ],
    ids=["another end", "another rollout", "another version"],
)
def test_only_refusals_in_a_row_count(between: PastRun) -> None:
    history = (REFUSED, REFUSED, between, REFUSED)

    assert next_look(refused(Reason.POD_IN_TRANSITION, *history), None) == DECIDED + DELAYS[1]
