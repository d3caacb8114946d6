"""The settle period begins when the API server shows the new kubelet: before, that kubelet knows no pods."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.node_status import AGENT_SECONDS
from tests.doubles.node import Crash
from tests.doubles.node.kubelet import REPORT_SECONDS
from tests.doubles.node.services import KUBELET_UNIT
from tests.scenario.node_run.test_node_run import LIMITS, START, Story, story
from tests.scenario.node_run.test_settling import while_settling

NEW = "v1.33.13"
AWAY = 75.0


def away(it: Story, seconds: float = AWAY) -> None:
    """Let the API server answer nobody from the start of the new kubelet on."""
    api, timeline = it.node.kubelet.api, it.node.timeline
    it.node.calls.before(START, lambda: setattr(api, "answers", False))
    it.node.calls.before(START, lambda: timeline.after(seconds, lambda: setattr(api, "answers", True)))


def took(it: Story, step: Step) -> float:
    journal = parse(it.node.journal.data)[0]
    began, ended = journal.first(step, Mark.DOING), journal.first(step, Mark.DONE)
    assert began is not None
    assert ended is not None
    return ended.monotonic - began.monotonic


def test_a_kubelet_that_was_without_pods_is_watched_once_it_has_them() -> None:
    it = story()
    away(it)
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("nginx"), HashValue("bad")))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL), report
    assert it.node.kubelet.replaced == []
