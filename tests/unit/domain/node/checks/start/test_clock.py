"""A node's clock is compared with the API server's by what both wrote into the same status."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.clock_offset import ahead
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.host import clock_is_right
from tests.unit.domain.node.checks.start.test_surroundings import around

BEAT = "2026-11-21T21:14:37Z"


def node(*stored: tuple[str, str, str], beat: str = BEAT) -> dict[str, Any]:
    entries = [{"manager": manager, "subresource": part, "time": time} for manager, part, time in stored]
    conditions = [{"type": "DiskPressure", "lastHeartbeatTime": "junk"}, {"type": "Ready", "lastHeartbeatTime": beat}]
    return {"metadata": {"name": "node-a", "managedFields": entries}, "status": {"conditions": conditions}}


SLOW = around(node=node(("kubelet", "status", "2026-11-21T21:16:37Z")))


@pytest.mark.parametrize(
    ("stored", "seconds"),
    [
        ("2026-11-21T21:14:38Z", -1),
        ("2026-11-21T22:14:37Z", -3600),
        ("2026-11-21T21:04:37Z", 600),
    ],
)
def test_the_difference_is_that_of_the_last_status(stored: str, seconds: int) -> None:
    seen = node(("kubelet", "", "2026-11-20T00:00:00Z"), ("kubelet", "status", stored), ("kubectl", "status", BEAT))
    found = ahead(seen)

    assert found is not None
    assert found.total_seconds() == seconds


STORED = ("kubelet", "status", BEAT)


@pytest.mark.parametrize("unknown", [{}, node(), node(("kubelet", "status", "now")), node(STORED, beat="")])
def test_without_both_times_nobody_can_tell(unknown: dict[str, Any]) -> None:
    assert ahead(unknown) is None


@pytest.mark.parametrize(
    ("stored", "told"),
    [("2026-11-21T21:16:37Z", "120 s behind"), ("2026-11-21T21:12:37Z", "120 s ahead of"), (BEAT, None)],
)
def test_a_clock_that_is_wrong_is_told_of(stored: str, told: str | None) -> None:
    found = ask([clock_is_right], around(node=node(("kubelet", "status", stored))))

    assert [(each.reason, each.forbids) for each in found] == ([] if told is None else [(Reason.CLOCK_SKEW, False)])
    assert told is None or told in found[0].detail
