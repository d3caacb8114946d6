"""Times of the API server's objects, which any kubelet writes: read as Go reads them, and unknown if they are none."""

from typing import Any

import pytest

from nodeupgrade.api.json import MalformedObjectError
from nodeupgrade.cluster.agent_pods import PodRole, view_agent_pod
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.pods import parse_pod

ROLES = dict.fromkeys(PodRole, "agent")
META = {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "creationTimestamp": "2026-01-02T03:04:05Z"}
READ = "2026-01-02T3:04:05Z"
UNKNOWN = ["now", "2026-01-02", "2026-01-02T03:04:05", "20260102T030405Z", "0001-01-01T00:00:00Z", 5, None]
LAST = "9999-12-31T23:59:59Z"
"""To it, no time can be added."""


def agent(written: object, **metadata: object) -> dict[str, Any]:
    states = [{"name": "agent", "state": {"running": {"startedAt": written}}}]
    return {"metadata": META | metadata, "spec": {}, "status": {"containerStatuses": states}}


def times(written: object) -> list[object]:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": written}
    ended = {"name": "c", "lastState": {"terminated": {"finishedAt": written}}}
    view = view_agent_pod(agent(written, deletionTimestamp=written), ROLES, "artifact")
    return [
        view_node({"metadata": META, "status": {"conditions": [ready]}}).ready_changed,
        view.running_since,
        view.deleted_at,
        *(
            each.previous_finished_at
            for each in parse_pod({"metadata": META, "spec": {}, "status": {"containerStatuses": [ended]}}).statuses
        ),
    ]


@pytest.mark.parametrize("written", [*UNKNOWN, LAST])
def test_a_time_that_is_none_is_unknown(written: object) -> None:
    assert times(written) == [None] * 4


def test_a_time_is_read_as_go_reads_it() -> None:
    assert [str(each) for each in times(READ)] == ["2026-01-02 03:04:05+00:00"] * 4


def test_what_the_api_server_itself_writes_has_to_be_a_time() -> None:
    with pytest.raises(MalformedObjectError, match=r"metadata\.creationTimestamp because '2026-01-02' is not"):
        view_agent_pod(agent(READ, creationTimestamp="2026-01-02"), ROLES, "artifact")
