"""What the ID of a run tells."""

from datetime import UTC, datetime

import pytest

from nodeupgrade.api.task.run_id import began_at, new_run_id, of_kind
from nodeupgrade.api.values import RunId, RunKind

NOW = datetime(2026, 3, 2, 10, 4, 59, tzinfo=UTC)


@pytest.mark.parametrize("kind", RunKind)
def test_when_a_run_began(kind: RunKind) -> None:
    assert began_at(of_kind(new_run_id("0f5f7c1e-7d1c-4f0e-a2c0-1f6d0a1b2c3d", NOW), kind)) == NOW


@pytest.mark.parametrize("other", ["", "run-1", "0f5f7c1e-2026", "0f5f7c1e-20261399000000"])
def test_an_id_that_is_not_ours_tells_nothing(other: str) -> None:
    assert began_at(RunId(other)) is None
