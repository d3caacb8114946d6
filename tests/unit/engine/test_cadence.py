"""The whole rollout is planned now and then, and at once if anyone asks something else of it."""

from dataclasses import replace
from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.reading import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import Blank, Wait
from nodeupgrade.engine.rollout.passes import LONGEST_REST_SECONDS, Cadence
from tests.contract.kube.test_kube_api import task_spec
from tests.scenario.rollout.harness import upgrade_object


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def upgrade_seen() -> Upgrade:
    body = upgrade_object()
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}
    return parse_upgrade(body)


WAIT = Wait(node=NodeName("a"), reason=Reason.PROGRESSING, message="")
TASK = Task(name=NodeName("a"), uid="t", resource_version="1", generation=1, spec=task_spec("a"))
BLANK = Blank(node=NodeName("a"), task=TASK, reason=Reason.CLAIMED, message="")


def test_it_rests_in_proportion_and_not_for_long() -> None:
    clock, upgrade = Clock(), upgrade_seen()
    cadence = Cadence(30.0, clock)
    assert cadence.left(upgrade) == 0
    cadence.planned(upgrade, (WAIT,), 0.01)
    assert round(cadence.left(upgrade), 3) == 0.3
    clock.now += 0.3
    assert cadence.left(upgrade) == 0
    cadence.planned(upgrade, (WAIT,), 9.0)
    assert cadence.left(upgrade) == LONGEST_REST_SECONDS


def test_it_rests_less_while_a_slot_waits() -> None:
    clock, upgrade = Clock(), upgrade_seen()
    cadence = Cadence(30.0, clock)
    cadence.planned(upgrade, (WAIT,), 0.01)
    clock.now += 0.02
    cadence.slot_waits()
    assert round(cadence.left(upgrade), 3) == 0.03
    cadence.planned(upgrade, (WAIT,), 9.0)
    cadence.slot_waits()
    assert cadence.left(upgrade) == LONGEST_REST_SECONDS


def test_what_we_write_ourselves_is_no_question_and_what_others_change_is() -> None:
    clock, upgrade = Clock(), upgrade_seen()
    cadence = Cadence(30.0, clock)
    cadence.planned(upgrade, (), 9.0)
    ours = replace(upgrade, resource_version="2", status=replace(upgrade.status, planned_at=datetime.now(UTC)))
    assert cadence.left(ours) > 0
    for changed in (replace(ours, braked=True), replace(ours, deleting=True), replace(ours, retry="again")):
        assert cadence.left(changed) == 0


def test_what_one_plan_cannot_finish_is_planned_on_at_once() -> None:
    cadence, upgrade = Cadence(30.0, Clock()), upgrade_seen()
    cadence.planned(upgrade, (WAIT, BLANK), 9.0)
    assert cadence.left(upgrade) == 0
    cadence.planned(upgrade, (WAIT,), 9.0)
    cadence.hurry()
    assert cadence.left(upgrade) == 0
