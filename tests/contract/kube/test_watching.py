"""What every implementation of the KubeApi port promises to those who list in pages and watch."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, PODS, ExpiredError, WatchEvent, WatchEventType
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.contract.kube.test_kube_api import pod
from tests.doubles.kube import InMemoryKube

LABEL = "nodeupgrade.dev/test"
SECONDS = 180
FINALIZER = "nodeupgrade.dev/test"


@pytest.fixture
def mark() -> str:
    """A label's value that no other test uses: the real API server outlives a test."""
    return uuid.uuid4().hex[:12]


async def add(kube: TypedKube, mark: str, name: str) -> Json:
    return await kube.create(NODES, node(mark, name))


def node(mark: str, name: str) -> Json:
    metadata = {"name": f"{name}-{mark}", "labels": {LABEL: mark}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


async def position(kube: TypedKube, mark: str) -> str:
    """The resourceVersion from which a watch sees only what happens from now on."""
    return [page.resource_version async for page in kube.pages(NODES, labels={LABEL: mark})][-1]


@contextlib.asynccontextmanager
async def watching(kube: TypedKube, mark: str, since: str) -> AsyncIterator[Callable[[], Awaitable[WatchEvent]]]:
    """Watch the nodes of one test, without bookmarks, which come when they like."""
    async with contextlib.aclosing(kube.watch(NODES, resource_version=since, labels={LABEL: mark})) as events:

        async def following() -> WatchEvent:
            async with asyncio.timeout(SECONDS):
                async for event in events:
                    if event.change is not WatchEventType.BOOKMARK:
                        return event
            raise AssertionError("the watch ended")

        yield following


def told(event: WatchEvent) -> tuple[WatchEventType, str]:
    return event.change, event.body["metadata"]["name"].partition("-")[0]


async def test_a_watch_tells_everything_once_and_in_order(kube: TypedKube, mark: str) -> None:
    await add(kube, mark, "before")
    since = await position(kube, mark)
    created = await add(kube, mark, "a")
    name = created["metadata"]["name"]
    async with watching(kube, mark, since) as following:
        changed = await kube.merge(NODES, name, {"spec": {"unschedulable": True}})
        await kube.delete(NODES, name)
        await add(kube, mark, "b")
        seen = [await following() for _ in range(4)]
    assert [told(event) for event in seen] == [
        (WatchEventType.ADDED, "a"),
        (WatchEventType.MODIFIED, "a"),
        (WatchEventType.DELETED, "a"),
        (WatchEventType.ADDED, "b"),
    ]
    assert seen[1].body["metadata"] == changed["metadata"]
    versions = [int(event.body["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions)), "the deletion has a version of its own"
    assert versions[0] > int(since)


async def test_a_watch_goes_on_where_another_ended(kube: TypedKube, mark: str) -> None:
    since = await position(kube, mark)
    for name in ("a", "b", "c"):
        await add(kube, mark, name)
    seen = []
    for _ in range(3):
        async with watching(kube, mark, since) as following:
            event = await following()
        seen.append(told(event))
        since = event.body["metadata"]["resourceVersion"]
    assert seen == [(WatchEventType.ADDED, "a"), (WatchEventType.ADDED, "b"), (WatchEventType.ADDED, "c")]


async def test_what_loses_its_label_is_gone_for_those_who_ask_for_it(kube: TypedKube, mark: str) -> None:
    created = await add(kube, mark, "a")
    name, since = created["metadata"]["name"], await position(kube, mark)
    async with watching(kube, mark, since) as following:
        await kube.merge(NODES, name, {"metadata": {"labels": {LABEL: "other"}}})
        lost = await following()
        await kube.merge(NODES, name, {"metadata": {"labels": {LABEL: mark}}})
        found = await following()
    assert (lost.change, found.change) == (WatchEventType.DELETED, WatchEventType.ADDED)
    assert int(lost.body["metadata"]["resourceVersion"]) > int(since)


async def test_a_deletion_that_a_finalizer_delays_is_a_change_first(kube: TypedKube, mark: str) -> None:
    created = await kube.create(NODES, node(mark, "a"))
    name = created["metadata"]["name"]
    await kube.merge(NODES, name, {"metadata": {"finalizers": [FINALIZER]}})
    async with watching(kube, mark, await position(kube, mark)) as following:
        await kube.delete(NODES, name)
        deleting = await following()
        await kube.merge(NODES, name, {"metadata": {"finalizers": None}})
        seen = [await following()]
        while seen[-1].change is not WatchEventType.DELETED:
            seen.append(await following())
    assert deleting.change is WatchEventType.MODIFIED
    assert "deletionTimestamp" in deleting.body["metadata"]


async def test_a_watch_sees_one_namespace_or_all(kube: TypedKube, mark: str) -> None:
    pages = [page async for page in kube.pages(PODS)]
    since = pages[-1].resource_version
    for namespace in ("default", "nodeupgrade-system"):
        await kube.create(PODS.within(namespace), pod(f"p-{mark}", namespace, node=mark, app=mark))
    for resource, expected in ((PODS, ["default", "nodeupgrade-system"]), (PODS.within("default"), ["default"])):
        seen: list[str] = []
        async with asyncio.timeout(SECONDS):
            events = kube.watch(resource, resource_version=since, labels={"app": mark})
            async with contextlib.aclosing(events):
                async for event in events:
                    seen.append(event.body["metadata"]["namespace"])
                    if len(seen) == len(expected):
                        break
        assert seen == expected


async def test_a_list_of_a_nodes_pods_has_seen_what_was_done_before(kube: TypedKube, mark: str) -> None:
    """It comes from the API server's cache, which lags behind; whoever asks is not to notice."""
    pods, expected = PODS.within("default"), set[str]()
    for number in range(8):
        for name in (f"{number}-{mark}", f"gone-{number}-{mark}"):
            await kube.create(pods, pod(name, "default", node=mark, app=mark))
        await kube.delete(pods, f"gone-{number}-{mark}")
        expected.add(f"{number}-{mark}")
        listed = {body["metadata"]["name"]: body for body in await kube.list_pods_on_node(mark)}
        assert {name for name, body in listed.items() if "deletionTimestamp" not in body["metadata"]} == expected


async def test_the_pods_of_a_node_are_told_as_they_are_and_then_as_they_change(kube: TypedKube, mark: str) -> None:
    """A watch from nowhere needs no list before it, and another goes on from the greatest version it told."""
    pods = PODS.within("default")
    for name in ("a", "b"):
        await kube.create(pods, pod(f"{name}-{mark}", "default", node=mark, app=mark))
    await kube.create(pods, pod(f"elsewhere-{mark}", "default", node=f"other-{mark}", app=mark))

    async def follow(since: str, count: int) -> list[WatchEvent]:
        seen: list[WatchEvent] = []
        async with asyncio.timeout(SECONDS):
            events = kube.watch_pods_on_node(mark, resource_version=since)
            async with contextlib.aclosing(events):
                async for event in events:
                    seen += [event] if event.change is not WatchEventType.BOOKMARK else []
                    if len(seen) == count:
                        break
        return seen

    there = await follow("", 2)
    assert sorted(told(event) for event in there) == [(WatchEventType.ADDED, "a"), (WatchEventType.ADDED, "b")]
    since = str(max(int(event.body["metadata"]["resourceVersion"]) for event in there))

    await kube.create(pods, pod(f"later-{mark}", "default", node=f"other-{mark}", app=mark))
    await kube.replace_status(pods, f"a-{mark}", {"phase": "Running"})
    await kube.delete(pods, f"b-{mark}")
    first, *_ = changed = await follow(since, 2)
    assert (told(first), first.body["status"]["phase"]) == ((WatchEventType.MODIFIED, "a"), "Running")
    assert told(changed[1])[1] == "b"


async def test_a_list_comes_in_pages_and_is_true_at_one_moment(
    kube: TypedKube, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pages_of(2, kube, monkeypatch)
    for name in ("a", "b", "c", "d", "e"):
        await add(kube, mark, name)
    pages = []
    async for page in kube.pages(NODES, labels={LABEL: mark}):
        pages.append(page)
        if len(pages) == 1:
            await kube.delete(NODES, f"e-{mark}")
            await add(kube, mark, "f")
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [item["metadata"]["name"].partition("-")[0] for page in pages for item in page.items] == list("abcde")
    assert len({page.resource_version for page in pages}) == 1
    assert {(item["kind"], item["apiVersion"]) for page in pages for item in page.items} == {("Node", "v1")}
    async with watching(kube, mark, pages[0].resource_version) as following:
        seen = [told(await following()) for _ in range(2)]
    assert seen == [(WatchEventType.DELETED, "e"), (WatchEventType.ADDED, "f")]


async def test_an_empty_list_is_one_page(kube: TypedKube, mark: str) -> None:
    (page,) = [page async for page in kube.pages(NODES, labels={LABEL: mark})]
    assert page.items == ()
    assert int(page.resource_version) >= 0


def make_pages_of(size: int, kube: TypedKube, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(kube, InMemoryKube):
        kube.page_size = size
    monkeypatch.setattr("nodeupgrade.cluster.client.requesting.PAGE_SIZE", size)


async def test_what_is_forgotten_cannot_be_gone_on_from(kube: TypedKube, mark: str) -> None:
    await add(kube, mark, "a")
    await add(kube, mark, "b")
    if isinstance(kube, InMemoryKube):
        kube.log.compact(int(await position(kube, mark)))
    with pytest.raises(ExpiredError):
        async with watching(kube, mark, "1") as following:
            await following()
