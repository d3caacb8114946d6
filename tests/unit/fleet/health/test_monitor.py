"""The monitor evaluates what is asked for, at its pace, and never lets a pass wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.health.checks import HealthObservation, HealthState
from nodeupgrade.fleet.health.monitor import HealthMonitor
from tests.scenario.rollout.harness import upgrade_object

HOLDS = HealthObservation(state=HealthState.HOLDING)
QUICK = timedelta(milliseconds=2)


async def holds(_check: HealthCheck) -> HealthObservation:
    return HOLDS


async def hangs(_check: HealthCheck) -> HealthObservation:
    await asyncio.Event().wait()
    return HOLDS


async def raises(_check: HealthCheck) -> HealthObservation:
    raise NodeUpgradeError("the server is on fire")


@dataclass
class Probe:
    """Does what it is told."""

    does: Callable[[HealthCheck], Awaitable[HealthObservation]] = holds
    asked: list[str] = field(default_factory=list)

    async def observe(self, check: HealthCheck) -> HealthObservation:
        self.asked.append(check.name)
        return await self.does(check)


def upgrade(*names: str, uid: str = "u", **terms: Any) -> Upgrade:
    written = [{"name": n, "objects": {"apiVersion": "v1", "resource": "pods", "expression": "true"}} for n in names]
    body = upgrade_object("to-1-33", healthChecks=written)
    body["metadata"] |= {"uid": uid, "resourceVersion": "1"}
    parsed = read_upgrade(body)
    assert parsed.spec is not None
    quick = {"interval": QUICK, "timeout": QUICK, **terms}
    checks = tuple(replace(check, **quick) for check in parsed.spec.health_checks)
    return replace(parsed, spec=replace(parsed.spec, health_checks=checks))


@asynccontextmanager
async def monitoring(probe: Probe) -> AsyncIterator[tuple[HealthMonitor, asyncio.Queue[str]]]:
    changed: asyncio.Queue[str] = asyncio.Queue()
    monitor = HealthMonitor(probe, lambda: datetime.now(UTC), changed.put_nowait, timedelta(0))
    running = asyncio.create_task(monitor.run())
    try:
        yield monitor, changed
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - nothing tells of every change
            await asyncio.sleep(0.001)


async def test_a_check_is_evaluated_again_and_again_and_told_of_when_it_changes() -> None:
    probe = Probe()
    async with monitoring(probe) as (monitor, changed):
        assert monitor.readings(upgrade("a")) == {}
        assert await asyncio.wait_for(changed.get(), 60) == "to-1-33"
        first = monitor.readings(upgrade("a"))["a"]
        assert first.state is HealthState.HOLDING
        await until(lambda: len(probe.asked) > 5)
        assert changed.empty()
        assert monitor.readings(upgrade("a"))["a"].at > first.at

        probe.does = raises
        await asyncio.wait_for(changed.get(), 60)
        broken = monitor.readings(upgrade("a"))["a"]
        assert (broken.state, broken.detail) == (HealthState.BROKEN, "the server is on fire")


async def test_one_that_hangs_is_broken_and_hinders_no_other() -> None:
    async def some(check: HealthCheck) -> HealthObservation:
        return await (hangs if check.name == "a" else holds)(check)

    async with monitoring(Probe(some)) as (monitor, _):
        await until(lambda: set(monitor.readings(upgrade("a", "b"))) == {"a", "b"})
        known = monitor.readings(upgrade("a", "b"))
        assert (known["a"].state, known["b"].state) == (HealthState.BROKEN, HealthState.HOLDING)
        assert known["a"].detail == "no answer came within its timeout"


async def test_an_edited_check_and_a_new_object_of_the_same_name_begin_anew() -> None:
    probe = Probe()
    day = timedelta(days=1)
    async with monitoring(probe) as (monitor, _):
        await until(lambda: "a" in monitor.readings(upgrade("a", interval=day)))
        assert monitor.readings(upgrade("a", interval=day, timeout=day)) == {}
        await until(lambda: "a" in monitor.readings(upgrade("a", interval=day, timeout=day)))
        assert monitor.readings(upgrade("a", uid="v", interval=day, timeout=day)) == {}
        await until(lambda: len(probe.asked) == 3)


async def test_nothing_is_evaluated_for_what_is_gone_or_over() -> None:
    probe = Probe()
    over = replace(upgrade("a"), status=replace(upgrade("a").status, completed_at=datetime.now(UTC)))
    async with monitoring(probe) as (monitor, _):
        for end in (lambda: monitor.forget("to-1-33"), lambda: monitor.readings(over)):
            monitor.readings(upgrade("a"))
            await until(lambda: bool(probe.asked))
            end()
            monitor.readings(replace(upgrade("b"), name="other"))
            await until(lambda: not any(each.running for name, each in monitor._all() if name != "other"))
            probe.asked.clear()
            await until(lambda: len(probe.asked) > 5)
            assert set(probe.asked) == {"b"}
            monitor.forget("other")
            await until(lambda: not list(monitor._all()))


async def test_a_monitor_that_stops_and_runs_again_begins_anew() -> None:
    """As a leader that is one again: nobody has looked meanwhile, so that nothing has held all the time."""
    probe, changed = Probe(hangs), asyncio.Queue[str]()
    monitor = HealthMonitor(probe, lambda: datetime.now(UTC), changed.put_nowait, timedelta(0))
    running = asyncio.create_task(monitor.run())
    monitor.readings(upgrade("lively", timeout=timedelta(minutes=1)))
    await until(lambda: bool(probe.asked))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    probe.does = holds
    running = asyncio.create_task(monitor.run())
    assert monitor.readings(upgrade("lively", timeout=timedelta(minutes=1))) == {}
    assert await asyncio.wait_for(changed.get(), 60) == "to-1-33"
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_the_checks_of_one_hold_up_nobody_elses() -> None:
    """However many there are, and however long they take."""
    many, slow = [f"slow-{number}" for number in range(8)], timedelta(hours=1)

    async def some(check: HealthCheck) -> HealthObservation:
        return await (hangs if check.name.startswith("slow") else holds)(check)

    async with monitoring(Probe(some)) as (monitor, _):
        for number in range(5):
            monitor.readings(replace(upgrade(*many, timeout=slow, interval=slow), name=f"greedy-{number}"))
        await until(lambda: sum(each.running for _, each in monitor._all()) == 40)
        await until(lambda: set(monitor.readings(upgrade("a", "b", "c"))) == {"a", "b", "c"})


async def test_an_error_that_nobody_has_foreseen_is_one_checks() -> None:
    async def some(check: HealthCheck) -> HealthObservation:
        if check.name == "a":
            raise TypeError("'NoneType' object is not iterable")
        return await holds(check)

    async with monitoring(Probe(some)) as (monitor, _):
        await until(lambda: set(monitor.readings(upgrade("a", "b"))) == {"a", "b"})
        known = monitor.readings(upgrade("a", "b"))
        assert (known["a"].state, known["a"].detail) == (HealthState.BROKEN, "it fails with TypeError")
        assert known["b"].state is HealthState.HOLDING
