"""Each case changes one thing of one container, and either it is the instance it was or it is not."""

import base64
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import timestamp
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.fleet.decide.baseline import Baseline
from tests.doubles.kube import merged
from tests.doubles.kube_fleet import pod_object

STOPPED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(**changes: Any) -> Any:
    body = merged(pod_object("web-0", "node-0"), {"metadata": {"uid": changes.pop("uid", "u1")}})
    if changes.pop("mirror", False):
        body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if ended := changes.pop("ended", None):
        body["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"finishedAt": timestamp(ended)}}
    body["status"]["containerStatuses"][0] |= changes
    return body


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "the same": ({}, {}, False),
    "another container": ({}, {"containerID": "containerd://bbbbbbbbbbbb"}, True),
    "a higher restart count": ({}, {"restartCount": 1}, True),
    "restarted after the kubelet was stopped": ({}, {"restartCount": 1, "ended": STOPPED + timedelta(seconds=1)}, True),
    "restarted in the second of the stop": ({}, {"restartCount": 1, "ended": STOPPED}, True),
    "crashed by itself before": ({}, {"restartCount": 1, "ended": STOPPED - timedelta(seconds=1)}, False),
    "another pod of the same name": ({}, {"uid": "u2", "containerID": "containerd://bbbbbbbbbbbb"}, False),
    "static pod mirrored anew": ({"mirror": True}, {"mirror": True, "uid": "u2"}, False),
    "static pod restarted": (
        {"mirror": True},
        {"mirror": True, "uid": "u2", "containerID": "containerd://bbbbbbbbbbbb"},
        True,
    ),
    "was not running before": ({"state": {"waiting": {}}}, {"restartCount": 1}, False),
    "status not filled in yet": ({}, {"containerID": ""}, False),
}


@pytest.mark.parametrize(("before", "after", "changed"), CASES.values(), ids=CASES.keys())
def test_restarted(before: dict[str, Any], after: dict[str, Any], changed: bool) -> None:
    remembered = Baseline.parse(Baseline.capture([parse_pod(pod(**before))]).render())
    assert remembered is not None
    found = remembered.restarted([parse_pod(pod(**after))], STOPPED)
    assert found == (("default/web-0/main",) if changed else ())


DONE = {"terminated": {"exitCode": 0, "finishedAt": timestamp(STOPPED + timedelta(seconds=2))}}
BEFORE = {"terminated": {"exitCode": 0, "finishedAt": timestamp(STOPPED - timedelta(seconds=2))}}


@pytest.mark.parametrize(
    ("status", "state", "failed"),
    [
        ({"phase": "Failed", "reason": "NodeAffinity"}, DONE, True),
        ({"phase": "Failed", "reason": "Evicted"}, DONE, True),
        ({"phase": "Failed", "reason": "Evicted"}, BEFORE, False),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, DONE, False),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, None, True),
        ({"phase": "Failed"}, DONE, False),
        ({"phase": "Succeeded"}, DONE, False),
    ],
)
def test_a_container_that_exits_with_0_for_a_kubelet_that_fails_its_pod_is_ended_by_it(
    status: dict[str, Any], state: dict[str, Any] | None, failed: bool
) -> None:
    before = Baseline.capture([parse_pod(pod())])
    after = pod(state=state)
    after["status"] |= status
    if state is None:
        del after["status"]["containerStatuses"]
    seen = parse_pod(after)
    assert before.restarted([seen], STOPPED) == ()
    assert before.failed_by_kubelet([seen], STOPPED) == (("default/web-0/main",) if failed else ())
    other = parse_pod(merged(after, {"metadata": {"uid": "u2"}}))
    assert before.failed_by_kubelet([other], STOPPED) == ()


def test_what_nobody_wrote_is_not_read() -> None:
    assert Baseline.parse("") is None
    assert Baseline.parse("bm8=") is None


def test_full_node_fits_an_annotation() -> None:
    pods = [
        parse_pod(merged(pod_object(f"deployment-{n:05}-abcde", "node-0"), {"metadata": {"uid": f"{n:032x}"}}))
        for n in range(500)
    ]
    assert len(Baseline.capture(pods).render()) < 100_000


def test_a_run_begun_by_an_earlier_version_is_still_compared() -> None:
    text = base64.b64encode(zlib.compress(b'{"default/web-0/main":["u1","aaaaaaaaaaaa",0]}')).decode()
    remembered = Baseline.parse(text)
    assert remembered is not None
    again = parse_pod(pod(containerID="containerd://bbbbbbbbbbbb", restartCount=1))
    assert remembered.restarted([again], STOPPED) == ("default/web-0/main",)
    assert remembered.no_longer_ready([again]) == ()
