"""Tests for evaluating health checks: whose data are in memory, and who waits for whom."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck, PrometheusQuery
from nodeupgrade.cluster.kube_api import Page, Resource
from nodeupgrade.fleet.health import probe as module
from nodeupgrade.fleet.health.checks import HealthState
from nodeupgrade.fleet.health.probe import JUDGED_AT_ONCE, ClusterProbe
from tests.builders.prometheus_server import FakePrometheus, sample, serving, vector
from tests.doubles.kube import InMemoryKube

HOUR = timedelta(hours=1)
OBJECTS = HealthCheck(
    name="objects", objects=ClusterObjects(api_version="v1", resource="pods", expression="true"), timeout=HOUR
)
QUERY = HealthCheck(name="query", prometheus=PrometheusQuery(query="up", expression="true"), timeout=HOUR)


class Pods(InMemoryKube):
    """An API server with one pod; counts how often it was read."""

    lists = 0
    hangs = False

    async def pages(self, resource: Resource, **_: Any) -> AsyncIterator[Page]:
        self.lists += 1
        if self.hangs:
            await asyncio.Event().wait()
        yield Page(({"metadata": {"name": resource.plural}},), "1")


class Judges:
    """Judge once they may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.judging = 0

    async def find_failing(self, _expression: str, _cases: Sequence[Mapping[str, object]]) -> tuple[int, ...]:
        self.judging += 1
        await self.may.wait()
        return ()


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    judges = Judges()
    monkeypatch.setattr(module, "find_failing", judges.find_failing)
    return judges


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    async with serving(FakePrometheus(answer=vector(sample("1")))) as fake:
        yield fake


def probing(kube: InMemoryKube, *servers: PrometheusServer) -> ClusterProbe:
    return ClusterProbe(kube, servers, lambda: datetime(2026, 1, 1, tzinfo=UTC))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - nothing tells of every change
            await asyncio.sleep(0.001)


async def test_nothing_is_read_before_it_can_be_judged(judges: Judges) -> None:
    kube = Pods()
    probe = probing(kube)
    observed = [asyncio.ensure_future(probe.observe(OBJECTS)) for _ in range(5)]
    await until(lambda: judges.judging == JUDGED_AT_ONCE)
    await asyncio.sleep(0.05)
    assert kube.lists == JUDGED_AT_ONCE, "lists wait in memory"
    judges.may.set()
    assert {each.state for each in await asyncio.gather(*observed)} == {HealthState.HOLDING}
    assert kube.lists == 5


async def test_samples_wait_for_their_turn_too(judges: Judges, prometheus: FakePrometheus) -> None:
    probe = probing(Pods(), prometheus.server())
    observed = [asyncio.ensure_future(probe.observe(QUERY)) for _ in range(3)]
    await until(lambda: len(prometheus.asked) == 3)
    await asyncio.sleep(0.05)
    assert judges.judging == JUDGED_AT_ONCE
    judges.may.set()
    assert {each.state for each in await asyncio.gather(*observed)} == {HealthState.HOLDING}


async def test_a_prometheus_that_hangs_takes_nobodys_turn(judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    hung, over = list[str](), asyncio.Event()

    async def hang(fake: FakePrometheus, request: Any) -> Any:
        hung.append(request.path)
        await over.wait()

    monkeypatch.setattr(FakePrometheus, "handle", hang)
    judges.may.set()
    async with serving(FakePrometheus()) as fake:
        probe = probing(Pods(), fake.server())
        hanging = [asyncio.ensure_future(probe.observe(QUERY)) for _ in range(5)]
        await until(lambda: len(hung) == 5)
        async with asyncio.timeout(60):
            assert (await probe.observe(OBJECTS)).state is HealthState.HOLDING
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        over.set()  # the server ends when nobody is answered any more


async def test_nobody_keeps_its_turn_for_as_long_as_its_timeout(
    judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SECONDS", 0.05)
    kube = Pods()
    kube.hangs = True
    judges.may.set()
    broken = await probing(kube).observe(OBJECTS)
    assert (broken.state, judges.judging) == (HealthState.BROKEN, 0)
    assert broken.detail == "no answer came within its timeout, or it took more than 0.05 s to read it"
