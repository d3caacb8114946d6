"""Tests the report of a run."""

from dataclasses import replace
from datetime import datetime

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.run.report import probes_forgotten_at
from tests.builders.run_journal import BACK, ENDED, ONE_STEP, PLAN, STARTED, Line, at, journal

RESTARTED: tuple[Line, ...] = (*STARTED, (Step.STOP_KUBELET, Mark.UNDOING), (Step.STOP_KUBELET, Mark.UNDONE))
FORGETTING: dict[str, tuple[Journal, str, datetime | None]] = {
    "upgraded": (journal(*STARTED, (Step.VERIFY, Mark.DONE), report=ENDED), "v1.34.4", at(3)),
    "upgraded to one that remembers": (journal(*STARTED, report=ENDED), "v1.35.0", None),
    "rolled back from one that remembers": (journal(*RESTARTED, report=BACK), "v1.35.0", at(5)),
    "never stopped": (journal(*ONE_STEP, report=BACK), "v1.33.13", None),
    "under way": (journal(*STARTED), "v1.33.13", None),
    "a human is needed": (
        journal(*RESTARTED, report=replace(BACK, outcome=Outcome.DEGRADED)), "v1.33.13", None
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "target", "moment"), FORGETTING.values(), ids=FORGETTING.keys())
def test_since_when_pods_are_not_probed_yet(seen: Journal, target: str, moment: datetime | None) -> None:
    assert probes_forgotten_at(replace(PLAN, to_version=target), seen) == moment
