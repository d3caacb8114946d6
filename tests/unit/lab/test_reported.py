"""What a node's task reports is told apart from what it reported about an earlier run."""

from e2e.cluster import Object, reported


def task(asked: str, said: str) -> Object:
    return {"spec": {"runID": asked}, "status": {"runID": said, "phase": "Refused"}}


def test_what_is_said_about_an_earlier_run_is_no_report() -> None:
    assert reported(task(asked="b-1", said="b-1"))["phase"] == "Refused"
    assert reported(task(asked="b-1", said="a-1")) == {}
    assert reported({"spec": {"runID": "b-1"}}) == {}
    assert reported({"spec": {}, "status": {}}) == {}
