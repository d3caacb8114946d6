"""Several candidates over an API server that answers late, wrongly or not at all: never do two of them lead."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import LEASES, Resource, UnavailableError
from nodeupgrade.controlplane.manager import lead
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME, ElectionClock, Elector
from nodeupgrade.fleet.leadership.election import DURATION, RETRY
from tests.doubles.kube import InMemoryKube
from tests.doubles.virtual_time import run
from tests.scenario.rollout.harness import NAMESPACE, START

T = TypeVar("T")
HERE = LEASES.within(NAMESPACE)
TAKEN_OVER = DURATION + 3 * RETRY


def loop_time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Trouble(InMemoryKube):
    """Answers late every so often, after up to ``longest`` seconds; or the answer is lost."""

    chance: random.Random = field(default_factory=random.Random)
    longest: float = 0.0
    lost: float = 0.0

    async def get(self, resource: Resource, name: str) -> Json:
        return await self._somehow(lambda: InMemoryKube.get(self, resource, name))

    async def create(self, resource: Resource, body: Json) -> Json:
        return await self._somehow(lambda: InMemoryKube.create(self, resource, body))

    async def merge(self, *args, **more) -> Json:  # type: ignore[no-untyped-def]
        return await self._somehow(lambda: InMemoryKube.merge(self, *args, **more))

    async def _somehow(self, request: Callable[[], Awaitable[T]]) -> T:
        arriving = asyncio.ensure_future(self._late(request))
        arriving.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({arriving}, timeout=3)  # the request may arrive all the same, any time later
        if not done or self.chance.random() < self.lost:
            raise UnavailableError("no answer")
        return arriving.result()

    async def _late(self, request: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self.chance.uniform(0, self.longest if self.chance.random() < self.lost else 0.5))
        return await request()


def candidate(kube: InMemoryKube, name: str) -> Elector:
    return Elector(kube, NAMESPACE, name, clock=ElectionClock(monotonic=loop_time, utcnow=kube.clock))


@pytest.mark.parametrize("seed", range(20))
def test_never_do_two_lead_and_soon_one_does(seed: int) -> None:
    run(trial(seed))


async def trial(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a trial, not a secret
    kube = Trouble(clock=now, chance=chance, longest=12.0, lost=0.3)
    await InMemoryKube.create(kube, HERE, {"metadata": {"name": LEASE_NAME}})
    candidates = [candidate(kube, name) for name in "ABC"]

    async def works() -> None:
        await asyncio.sleep(chance.uniform(0, 120))
        await asyncio.Event().wait()

    leading = [asyncio.ensure_future(lead(each, works)) for each in candidates]
    for tick in range(3000):
        await asyncio.sleep(0.1)
        if tick % 300 == 200:  # one is stopped, as in a rolling update, and another comes
            gone = chance.randrange(3)
            leading[gone].cancel()
            await asyncio.gather(leading[gone], return_exceptions=True)
            candidates[gone] = candidate(kube, f"{'ABC'[gone]}-{tick}")
            leading[gone] = asyncio.ensure_future(lead(candidates[gone], works))
        if chance.random() < 0.002:
            await InMemoryKube.delete(kube, HERE, LEASE_NAME)
        leaders = [each for each in candidates if each.may_write()]
        assert len(leaders) <= 1, [each._identity for each in leaders]
    kube.longest, kube.lost = 0.0, 0.0
    await asyncio.sleep(2 * TAKEN_OVER.total_seconds())
    assert sum(each.may_write() for each in candidates) == 1
    assert not any(each.done() for each in leading)
    for each in leading:
        each.cancel()
    await asyncio.gather(*leading, return_exceptions=True)


def now() -> datetime:
    return START.astimezone(UTC) + timedelta(seconds=loop_time())


async def installed() -> InMemoryKube:
    kube = InMemoryKube(clock=now)
    await kube.create(HERE, {"metadata": {"name": LEASE_NAME}})
    return kube


async def _relay(*, released: bool) -> float:
    """How long nobody leads after the leader has stopped, or died."""
    kube = await installed()
    first, second = candidate(kube, "first"), candidate(kube, "second")

    async def works() -> None:
        await asyncio.Event().wait()

    leading = asyncio.ensure_future(lead(first, works))
    await asyncio.sleep(1)
    waiting = asyncio.ensure_future(lead(second, works))
    await asyncio.sleep(60)
    assert (first.may_write(), second.may_write()) == (True, False)
    if not released:
        first.release = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    stopped = loop_time()
    while not second.may_write():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.1)
    gap = loop_time() - stopped
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return gap


def test_whoever_is_stopped_is_succeeded_at_once() -> None:
    assert run(_relay(released=True)) <= RETRY.total_seconds() + 0.2


def test_whoever_dies_is_succeeded_when_the_lease_expires() -> None:
    assert RETRY < timedelta(seconds=run(_relay(released=False))) <= TAKEN_OVER


def test_work_that_fails_ends_the_operator_and_frees_the_lease() -> None:
    async def scenario() -> None:
        kube = await installed()
        first = candidate(kube, "first")

        async def fails() -> None:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await lead(first, fails)
        assert not first.may_write()
        assert (await kube.get(HERE, LEASE_NAME))["spec"]["holderIdentity"] == ""

    run(scenario())


def test_a_leader_that_meets_a_later_mark_leads_again_in_a_later_term() -> None:
    """For example after the Lease was deleted and created by a process that knew nothing of former terms."""

    async def scenario() -> None:
        kube = await installed()
        first = candidate(kube, "first")
        works = asyncio.Event()

        async def work() -> None:
            works.set()
            await asyncio.Event().wait()

        leading = asyncio.ensure_future(lead(first, work))
        await works.wait()
        assert first.epoch == "1-first"
        works.clear()
        first.step_down(41)
        assert not first.may_write(), "at once"
        await works.wait()
        assert first.epoch == "42-first"
        works.clear()
        first.step_down(1_999_999_999)  # no leader has written that: the number must not run out
        await works.wait()
        assert first.epoch == "1043-first"
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    run(scenario())
