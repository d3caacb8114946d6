"""Tests how the offset between a node's clock and the API server's clock is determined."""

from typing import Any

import pytest

from nodeupgrade.cluster.clock_offset import ahead
from tests.builders.clock_cases import BEAT, node


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
