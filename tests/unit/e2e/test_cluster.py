"""Tests what counts as reported by a task, and as disturbed."""

from dataclasses import replace

from e2e.cluster import Object, disturbed, reported
from tests.builders.lab import BEFORE, CONTAINER


def task(asked: str, said: str) -> Object:
    return {"spec": {"runID": asked}, "status": {"runID": said, "phase": "Refused"}}


def test_what_is_said_about_an_earlier_run_is_no_report() -> None:
    assert reported(task(asked="b-1", said="b-1"))["phase"] == "Refused"
    assert reported(task(asked="b-1", said="a-1")) == {}
    assert reported({"spec": {"runID": "b-1"}}) == {}
    assert reported({"spec": {}, "status": {}}) == {}


def test_whoever_ran_and_is_gone_was_disturbed_but_for_the_agent_of_an_earlier_run() -> None:
    """Its pod is deleted when its run is over, and takes its time."""
    its = replace(CONTAINER, pod="nodeupgrade-system/nodeupgrade-agent-node1")
    agent = replace(BEFORE, containers=(its,), sandboxes=())
    gone = replace(BEFORE, containers=(), sandboxes=())

    assert [difference.pod for difference in disturbed(BEFORE, gone)] == ["shop/web-1", "shop/web-1"]
    assert disturbed(agent, gone) == []
