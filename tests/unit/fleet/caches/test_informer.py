"""Nothing that an API server does ends an informer, and nothing that happens meanwhile is missed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import (
    NODES,
    ExpiredError,
    ForbiddenError,
    Page,
    RejectedError,
    Resource,
    UnavailableError,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.caches.informer import (
    LISTED_PER_SECOND,
    LONGEST_BACKOFF_SECONDS,
    PATIENCE_SECONDS,
    RELIST_SECONDS,
    SHORTEST_PATIENCE_SECONDS,
    SHORTEST_WATCH_SECONDS,
    SILENT_SECONDS,
    Informer,
    Relist,
    Timing,
)
from nodeupgrade.fleet.caches.object_cache import Delta
from tests.doubles.kube import InMemoryKube

ENOUGH = 3000
"""Turns of the event loop after which whatever can happen has happened."""


@dataclass
class Flaky(InMemoryKube):
    """An API server that answers the next lists and watches with errors."""

    list_errors: list[NodeUpgradeError] = field(default_factory=list)
    watch_errors: list[NodeUpgradeError] = field(default_factory=list)
    lists: int = 0
    watches: int = 0
    answers: asyncio.Event | None = None  # set once lists are answered; None if they always are
    torn_events: int = 0

    async def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        self.lists += 1
        if self.list_errors:
            raise self.list_errors.pop(0)
        async for page in super().pages(resource, labels=labels):
            if self.answers is not None:
                await self.answers.wait()
            yield page

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        self.watches += 1
        if self.watch_errors:
            raise self.watch_errors.pop(0)
        async for event in super().watch(resource, resource_version=resource_version, labels=labels, fields=fields):
            if self.torn_events:
                self.torn_events -= 1
                yield WatchEvent(WatchEventType.MODIFIED, {"metadata": None})
            yield event


@dataclass
class Clock:
    """Time that passes only where it is waited for."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def timing(self, patience: float) -> Timing:
        return Timing(monotonic=lambda: self.now, sleep=self.sleep, patience=patience, list_timeout=5.0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def informed(
    kube: InMemoryKube, clock: Clock, *, patience: float = 0.05, **options: Callable[..., None]
) -> AsyncIterator[Informer[int]]:
    """An informer at work that keeps the annotation ``n`` of every node."""
    informer = Informer(kube, NODES, number, timing=clock.timing(patience), **options)  # type: ignore[arg-type]
    running = asyncio.ensure_future(informer.run())
    try:
        yield informer
        assert not running.done(), "it gave up"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def number(body: Json) -> int:
    return int(body["metadata"]["annotations"]["n"])


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(ENOUGH):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")


async def put(kube: InMemoryKube, name: str, n: object) -> Json:
    metadata = {"name": name, "annotations": {"n": str(n)}}
    try:
        return await kube.merge(NODES, name, {"metadata": metadata})
    except NodeUpgradeError:
        return await kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})


async def test_everything_is_known_and_stays_known() -> None:
    kube, clock, deltas = InMemoryKube(page_size=2), Clock(), list[Delta[int]]()
    for name in "abc":
        await put(kube, name, 1)
    async with informed(kube, clock, on_change=deltas.append) as informer:
        await until(lambda: informer.synced)
        assert informer.views == {"a": 1, "b": 1, "c": 1}
        await put(kube, "a", 2)
        await kube.delete(NODES, "b")
        await put(kube, "d", 4)
        await until(lambda: informer.views == {"a": 2, "c": 1, "d": 4})
    assert deltas[3:] == [Delta(1, 2), Delta(1, None), Delta(None, 4)]
    assert informer.relists == {Relist.START: 1}
    assert clock.slept == []


TROUBLES = {
    "410": ExpiredError("cannot watch because it is forgotten"),
    "500": UnavailableError("cannot watch because the API server answers 500"),
    "429": UnavailableError("cannot watch because the API server answers 429", after=17.0),
    "403": ForbiddenError("cannot watch because the API server answers 403"),
    "404": RejectedError("cannot watch because the API server answers 404"),
}


@pytest.mark.parametrize("during", ["list", "watch"])
@pytest.mark.parametrize("error", TROUBLES.values(), ids=TROUBLES.keys())
async def test_no_error_ends_it_however_long_it_lasts(error: NodeUpgradeError, during: str) -> None:
    kube, clock, problems = Flaky(), Clock(), list[str]()
    await put(kube, "a", 1)
    (kube.list_errors if during == "list" else kube.watch_errors).extend([error] * 100)
    async with informed(kube, clock, on_error=problems.append) as informer:
        await until(lambda: not kube.list_errors and not kube.watch_errors and informer.synced)
        await put(kube, "b", 2)
        await until(lambda: informer.views == {"a": 1, "b": 2})
    assert len(problems) == len(clock.slept) == 100
    assert str(error) in problems
    least = getattr(error, "after", 0.0)
    assert all(least <= seconds <= max(least, LONGEST_BACKOFF_SECONDS) for seconds in clock.slept)
    assert min(clock.slept[20:]) >= LONGEST_BACKOFF_SECONDS / 2, "delays grow"
    assert len(set(clock.slept)) > 50 or least, "and differ"
    assert kube.lists <= 102, "no list without a delay"


async def test_a_connection_that_breaks_is_no_reason_to_list() -> None:
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock) as informer:
        await until(lambda: kube.watches == 1)
        for n in range(5):
            clock.now += 2 * SHORTEST_WATCH_SECONDS
            kube.log.drop()
            await put(kube, "a", n)
            await until(lambda n=n: informer.views == {"a": n} and kube.watches == n + 2)  # type: ignore[misc]
    assert (kube.lists, kube.watches) == (1, 6)
    assert clock.slept == []


async def test_a_watch_that_ends_at_once_is_not_begun_again_and_again() -> None:
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock):
        for n in range(1, 4):
            await until(lambda n=n: kube.watches == n)  # type: ignore[misc]
            kube.log.drop()
        await until(lambda: len(clock.slept) == 3)
    assert kube.watches <= 4


async def test_what_was_deleted_while_nobody_looked_is_gone() -> None:
    kube, clock, deltas = Flaky(), Clock(), list[Delta[int]]()
    await put(kube, "a", 1)
    await put(kube, "b", 1)
    async with informed(kube, clock, on_change=deltas.append) as informer:
        await until(lambda: kube.watches == 1)
        kube.watch_errors = [UnavailableError("away")]
        kube.log.drop()
        await kube.delete(NODES, "a")
        kube.log.compact(10)
        await until(lambda: informer.views == {"b": 1})
    assert deltas[-1] == Delta(1, None)
    assert informer.relists == {Relist.START: 1, Relist.EXPIRED: 1}


async def test_a_list_whose_pages_expire_is_begun_anew() -> None:
    kube, clock = Flaky(page_size=1), Clock()
    for name in "abc":
        await put(kube, name, 1)

    real, turns = kube.list, iter([True, False])

    async def list_and_compact(*arguments: object, **options: object) -> list[Json]:
        found = await real(*arguments, **options)  # type: ignore[arg-type]
        if next(turns, False):
            await put(kube, "d", 1)
            kube.log.compact(4)
        return found

    kube.list = list_and_compact  # type: ignore[method-assign]
    async with informed(kube, clock) as informer:
        await until(lambda: set(informer.views) == set("abcd"))
    assert informer.relists == {Relist.START: 1, Relist.EXPIRED: 1}


async def test_everything_is_listed_now_and_then_whatever_the_watch_tells() -> None:
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock) as informer:
        for n in range(1, 4):
            await until(lambda n=n: kube.watches == n)  # type: ignore[misc]
            clock.now += 1.2 * RELIST_SECONDS
            kube.log.drop()
        await until(lambda: kube.watches == 4)
    assert informer.relists == {Relist.START: 1, Relist.PERIODIC: 3}
    assert RELIST_SECONDS >= 300, "or it costs more than it is worth"


async def test_malformed_objects_are_reported_and_held_alone() -> None:
    kube, clock = Flaky(), Clock()
    await put(kube, "a", "not a number")
    await put(kube, "b", 2)
    async with informed(kube, clock) as informer:
        await until(lambda: informer.synced)
        assert (informer.views, set(informer.unreadable)) == ({"b": 2}, {"a"})
        await put(kube, "a", 1)
        await until(lambda: informer.views == {"a": 1, "b": 2})
    assert informer.unreadable == {}
    assert clock.slept == []


async def test_an_event_that_is_none_leads_to_a_list() -> None:
    kube, clock = Flaky(torn_events=1), Clock()
    async with informed(kube, clock) as informer:
        await until(lambda: kube.watches == 1)
        await put(kube, "a", 1)
        await until(lambda: informer.views == {"a": 1})
    assert informer.relists == {Relist.START: 1, Relist.ERROR: 1}


async def test_own_writes_are_known_at_once_and_old_news_does_not_undo_them() -> None:
    kube, clock = Flaky(), Clock()
    body = await put(kube, "a", 1)
    async with informed(kube, clock) as informer:
        await until(lambda: kube.watches == 1)
        await put(kube, "a", 2)
        informer.learn(await put(kube, "a", 3))
        assert informer.views == {"a": 3}
        for _ in range(ENOUGH):
            assert informer.views == {"a": 3}
            await asyncio.sleep(0)
        await kube.delete(NODES, "a")
        informer.forget("a", body["metadata"]["uid"])
        assert informer.views == {}


async def test_whoever_knows_of_something_waits_for_it_or_gets_a_list() -> None:
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock) as informer:
        await until(lambda: kube.watches == 1)
        known = int((await put(kube, "a", 1))["metadata"]["resourceVersion"])
        await informer.at_least(known)
        assert informer.views == {"a": 1}
        assert kube.lists == 1, "the watch brought it"
        kube.log.compact(known)
        elsewhere = await kube.create(replace(NODES, plural="others"), {"metadata": {"name": "x"}})
        await asyncio.gather(*(informer.at_least(int(elsewhere["metadata"]["resourceVersion"])) for _ in range(5)))
    assert informer.relists == {Relist.START: 1, Relist.BEHIND: 1}, "one list for all"


@pytest.mark.parametrize("listed", [True, False], ids=["included in it", "written meanwhile"])
async def test_whoever_waits_while_everything_is_listed_lets_it_be_listed_again_only_if_that_is_older(
    listed: bool,
) -> None:
    kube, clock = Flaky(answers=asyncio.Event()), Clock()
    assert kube.answers is not None
    before = await put(kube, "a", 1)
    async with informed(kube, clock, patience=0.01) as informer:
        await until(lambda: kube.lists == 1)
        known = before if listed else await kube.create(replace(NODES, plural="others"), {"metadata": {"name": "x"}})
        waiting = asyncio.ensure_future(informer.at_least(int(known["metadata"]["resourceVersion"])))
        await asyncio.sleep(0.1)
        kube.answers.set()
        await waiting
        await until(lambda: kube.watches > 0)
    assert informer.relists == ({Relist.START: 1} if listed else {Relist.START: 1, Relist.BEHIND: 1})


@pytest.mark.parametrize("silent", [True, False])
async def test_an_api_server_that_says_nothing_for_long_may_have_been_restored_from_a_backup(silent: bool) -> None:
    """Connections are given up sooner; a bookmark is enough to go on with the next."""
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock) as informer:
        for n in range(1, 5):
            await until(lambda n=n: kube.watches == n)  # type: ignore[misc]
            clock.now += 0.6 * SILENT_SECONDS
            if not silent:
                kube.log.bookmark()
                await until(lambda: informer.silence == 0)
            kube.log.drop()
        await until(lambda: kube.watches == 5)
    assert informer.relists == {Relist.START: 1, **({Relist.PERIODIC: 2} if silent else {})}


async def test_a_version_that_never_comes_is_not_waited_for() -> None:
    """Versions that do not compare, since the other kind is kept in another etcd, cost a list and no more."""
    kube, clock = Flaky(), Clock()
    async with informed(kube, clock) as informer:
        await until(lambda: informer.synced)
        await informer.at_least(10**12)
    assert informer.relists[Relist.BEHIND] == 1


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [(0, SHORTEST_PATIENCE_SECONDS), (300, 300 / LISTED_PER_SECOND), (2000, PATIENCE_SECONDS)],
    ids=["none", "some", "many"],
)
async def test_the_watch_is_waited_for_about_as_long_as_a_list_takes(
    monkeypatch: pytest.MonkeyPatch, nodes: int, seconds: float
) -> None:
    kube, timeout, waited = InMemoryKube(page_size=nodes or 1), asyncio.timeout, list[float]()
    for n in range(nodes):
        await put(kube, f"node-{n}", n)

    def told(delay: float) -> asyncio.Timeout:
        waited.append(delay)
        return timeout(0 if len(waited) == 1 else delay)

    async with informed(kube, Clock(), patience=PATIENCE_SECONDS) as informer:
        await until(lambda: informer.synced)
        monkeypatch.setattr(asyncio, "timeout", told)
        await informer.at_least(10**12)
    assert waited[0] == pytest.approx(seconds)


async def test_nobody_plans_with_what_cannot_be_listed() -> None:
    kube = Flaky(list_errors=[UnavailableError("away")] * 1_000_000)
    informer = Informer(kube, NODES, number, timing=Timing(patience=0.01, list_timeout=0.05))
    running = asyncio.ensure_future(informer.run())
    with pytest.raises(UnavailableError, match="nodes cannot be listed"):
        await informer.at_least(0)
    running.cancel()
