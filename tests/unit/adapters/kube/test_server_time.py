"""The API server's time, which does not follow the own clock."""

from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.cluster.client import transport as module
from tests.unit.adapters.kube.test_throttling import Answer, Client, transport

THERE = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


async def test_it_is_that_of_the_last_answer_and_how_long_that_is_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 107.5])
    monkeypatch.setattr(module, "_since_boot", lambda: next(moments))
    there = transport(Client([Answer(200, {"Date": "Thu, 26 Nov 2026 12:00:00 GMT"})]))
    await there.request("GET", "/a")
    assert there.server_time() == THERE + timedelta(seconds=7.5)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
async def test_it_is_the_own_time_as_long_as_nothing_is_told(headers: dict[str, str]) -> None:
    there = transport(Client([Answer(200, headers)]))
    await there.request("GET", "/a")
    assert abs(there.server_time() - datetime.now(UTC)) < timedelta(minutes=1)
