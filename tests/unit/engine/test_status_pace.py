from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import (
    Condition,
    ConditionStatus,
    Counts,
    NodeFailure,
    UpgradeStatus,
    WaveState,
    WaveStatus,
)
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import FreeSlot, Hold, NodeAction, Report, WriteStatus
from nodeupgrade.engine.rollout.status_pace import may_wait

THEN = datetime(2026, 1, 1, tzinfo=UTC)
READY = Condition(
    type="Ready", status=ConditionStatus.FALSE, reason="Progressing", message="1 of 9", last_transition_time=THEN
)
BEFORE = UpgradeStatus(
    phase="Running",
    progress="1/9",
    in_flight=(NodeName("a"),),
    conditions=(READY,),
    waves=(WaveStatus(name="canary", state=WaveState.RUNNING, total=9, succeeded=1),),
)

LATER = {
    "progress": replace(BEFORE, progress="2/9", counts=Counts(total=9, succeeded=2)),
    "message": replace(BEFORE, conditions=(replace(READY, message="2 of 9"),)),
    "wave's counts": replace(BEFORE, waves=(replace(BEFORE.waves[0], succeeded=2),)),
}

AT_ONCE = {
    "slot taken": replace(BEFORE, in_flight=(NodeName("a"), NodeName("b"))),
    "slot freed": replace(BEFORE, in_flight=()),
    "condition's status": replace(BEFORE, conditions=(replace(READY, status=ConditionStatus.TRUE),)),
    "condition's reason": replace(BEFORE, conditions=(replace(READY, reason="Paused"),)),
    "condition's generation": replace(BEFORE, conditions=(replace(READY, observed_generation=2),)),
    "phase": replace(BEFORE, phase="Paused"),
    "wave begun": replace(BEFORE, waves=(replace(BEFORE.waves[0], state=WaveState.SOAKING),)),
    "wave approved": replace(BEFORE, waves=(replace(BEFORE.waves[0], approved_by="alice"),)),
    "failure": replace(BEFORE, failures=(NodeFailure(node=NodeName("a"), reason="RolledBack"),)),
    "failed": replace(BEFORE, failed=1),
    "spec seen": replace(BEFORE, observed_generation=2),
    "end": replace(BEFORE, completed_at=THEN),
    "retry": replace(BEFORE, last_handled_retry="x"),
}


def write(status: UpgradeStatus) -> WriteStatus:
    return WriteStatus(status=status, reason=Reason.PROGRESSING, message="")


@pytest.mark.parametrize("status", LATER.values(), ids=LATER.keys())
def test_counters_may_be_late(status: UpgradeStatus) -> None:
    assert may_wait(BEFORE, [write(status)])
    assert may_wait(BEFORE, [Hold(reason=Reason.PAUSED, message=""), write(status)])


@pytest.mark.parametrize("status", AT_ONCE.values(), ids=AT_ONCE.keys())
def test_whatever_anybody_decides_by_is_written_at_once(status: UpgradeStatus) -> None:
    assert not may_wait(BEFORE, [write(status)])


NEWS: list[NodeAction] = [
    Report(reason=Reason.PAUSED, message=""),
    FreeSlot(node=NodeName("a"), reason=Reason.PROGRESSING, message=""),
]


@pytest.mark.parametrize("other", NEWS, ids=lambda action: type(action).__name__)
def test_a_plan_that_does_or_tells_anything_else_is_carried_out_at_once(other: NodeAction) -> None:
    assert not may_wait(BEFORE, [other, write(LATER["progress"])])


def test_nothing_to_do_is_nothing_to_delay() -> None:
    assert not may_wait(BEFORE, [Hold(reason=Reason.PAUSED, message="")])
