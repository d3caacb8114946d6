"""Tests for listing and watching the Pods of a node."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.refusals import failure
from nodeupgrade.cluster.client.requesting import LARGEST_RECENT
from nodeupgrade.cluster.client.transport import Transport
from nodeupgrade.cluster.kube_api import EVENTS, NODES, PODS, Keep, UnavailableError, WatchEventType
from nodeupgrade.cluster.pods import for_watch

POD: Json = {"metadata": {"name": "web", "uid": "u", "resourceVersion": "40"}}
COUNT: tuple[str, Json] = ("/api/v1/pods", {"limit": "1"})
PLAIN = ("/api/v1/pods", {"fieldSelector": "spec.nodeName=a"})
NOW: tuple[str, Json] = ("/api/v1/namespaces/kube-node-lease/pods", {})
INDEXED = (
    "/api/v1/pods",
    {"fieldSelector": "spec.nodeName=a", "resourceVersion": "42", "resourceVersionMatch": "NotOlderThan"},
)
EXACT = ("/api/v1/pods", {"limit": "500", "fieldSelector": "spec.nodeName=a"})


@dataclass
class Line:
    """Writes down what is asked."""

    lags: bool = False  # the API server's cache has not come as far as its etcd
    # what it says of the number of pods; None if that is forbidden
    counted: Json | None = field(default_factory=lambda: {"remainingItemCount": 149_999, "continue": "c"})
    answers: asyncio.Event | None = None  # set once it answers; None if it always does
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    kept: list[Keep | None] = field(default_factory=list)
    bounds: list[int | None] = field(default_factory=list)
    watched: list[Mapping[str, str]] = field(default_factory=list)

    async def request(
        self,
        _method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        largest: int | None = None,
        keep: Keep | None = None,
    ) -> Any:
        query = query or {}
        self.bounds.append(largest)
        self.kept.append(keep)
        self.asked.append((path, dict(query)))
        if self.answers is not None:
            await self.answers.wait()
        if self.lags and "resourceVersionMatch" in query:
            raise failure(f"GET {path}", 504, "Timeout: Too large resource version: 42, current: 41")
        if (path, query) == COUNT:
            if self.counted is None:
                raise failure(f"GET {path}", 403, "not you")
            return {"metadata": {"resourceVersion": "42", **self.counted}, "items": [POD]}
        return {"metadata": {"resourceVersion": "42"}, "items": [] if "namespaces" in path else [POD]}

    async def lines(self, _path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        self.watched.append(dict(query))
        for line in list[bytes]():
            yield line


def client(line: Line, page_size: int | None = None) -> KubeClient:
    return KubeClient(cast("Transport", line), page_size)


async def test_pages_are_as_large_as_was_wanted() -> None:
    line = Line()
    for wanted in (None, 50):
        assert [page async for page in client(line, wanted).pages(NODES)]
    assert [asked["limit"] for _, asked in line.asked] == ["500", "50"]


async def test_what_comes_without_pages_has_a_limit() -> None:
    line = Line()
    assert await client(line).list(PODS, labels={"app": "a"}, recent=True)
    assert line.asked == [("/api/v1/pods", {"resourceVersion": "0", "labelSelector": "app=a"})]
    assert line.bounds == [LARGEST_RECENT]


async def test_the_index_is_asked_for_the_state_of_this_moment() -> None:
    line = Line()
    (pod,) = await client(line).list_pods_on_node("a")
    assert pod["metadata"] == POD["metadata"]
    assert line.asked == [COUNT, NOW, INDEXED]


async def test_the_state_of_one_moment_is_asked_for_once_and_nobody_gets_that_of_an_earlier_one() -> None:
    line = Line()
    kube = client(line)
    await kube.list_pods_on_node("a")
    line.asked.clear()
    line.answers = asyncio.Event()
    lists = [asyncio.ensure_future(kube.list_pods_on_node("a")) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert line.asked == [NOW]
    lists.append(asyncio.ensure_future(kube.list_pods_on_node("a")))
    await asyncio.sleep(0.01)
    assert line.asked == [NOW, NOW], "it was sent before this list was asked for"
    lists[0].cancel()
    line.answers.set()
    assert [len(pods) for pods in await asyncio.gather(*lists[1:])] == [1, 1, 1]


async def test_where_the_cache_does_not_come_so_far_etcd_is_asked() -> None:
    line = Line(lags=True)
    assert len(await client(line).list_pods_on_node("a", for_watch)) == 1
    assert line.asked == [COUNT, NOW, INDEXED, EXACT]
    assert line.kept[-2:] == [for_watch, for_watch]


@pytest.mark.parametrize(
    ("counted", "few"),
    [({}, True), ({"remainingItemCount": 998, "continue": "c"}, True), ({"remainingItemCount": 1000}, False),
     ({"continue": "an API server that does not count"}, False), (None, False)],
)  # fmt: skip
async def test_few_pods_are_read_without_a_detour_and_are_not_counted_every_time(
    counted: Json | None, few: bool
) -> None:
    line = Line(counted=counted)
    kube = client(line)
    for _ in range(2):
        assert len(await kube.list_pods_on_node("a")) == 1
    assert line.asked == [COUNT, *(2 * ([PLAIN] if few else [NOW, INDEXED]))]


async def test_pods_are_counted_once_for_all_nodes_that_are_read_at_the_same_time() -> None:
    line = Line(answers=asyncio.Event())
    kube = client(line)
    lists = [asyncio.ensure_future(kube.list_pods_on_node("a")) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert line.asked == [COUNT]
    assert line.answers is not None
    line.answers.set()
    assert [len(pods) for pods in await asyncio.gather(*lists)] == [1, 1, 1]
    assert line.asked == [COUNT, NOW, INDEXED, INDEXED, INDEXED]


async def test_a_watch_begins_with_such_a_list() -> None:
    line = Line()
    events = [event async for event in client(line).watch_pods_on_node("a")]
    assert [(event.change, event.body["metadata"]["name"]) for event in events] == [(WatchEventType.ADDED, "web")]
    assert line.asked == [COUNT, NOW, INDEXED]
    assert line.kept[-1] is for_watch, "the pods may be larger together than an agent reads"
    assert [query["resourceVersion"] for query in line.watched] == ["42"]


async def test_a_watch_that_goes_on_lists_nothing() -> None:
    line = Line()
    assert [event async for event in client(line).watch_pods_on_node("a", resource_version="7")] == []
    assert (line.asked, line.watched[0]["resourceVersion"]) == ([], "7")


@pytest.mark.parametrize(
    ("resource", "fields"),
    [(NODES, None), (EVENTS.within("default"), {"involvedObject.name": "a"}), (PODS, {"status.phase": "Running"})],
)
async def test_what_has_no_index_is_listed_in_pages(resource: Any, fields: Json | None) -> None:
    line = Line()
    await client(line).list(resource, fields=fields)
    ((_, query),) = line.asked
    assert query["limit"] == "500"
    assert "resourceVersion" not in query


@pytest.mark.parametrize(
    "answer",
    [{}, [], None, {"items": []}, {"metadata": {}, "items": []}, {"metadata": {"resourceVersion": "1"}, "items": [1]}],
)
async def test_an_answer_that_is_no_list_is_none(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer may say anything in JSON with 200; nobody who lists for ever may end by it."""
    line = Line()

    async def request(*_asked: object, **_more: object) -> Any:
        return answer

    monkeypatch.setattr(line, "request", request)
    with pytest.raises(UnavailableError, match="cannot list nodes because the API server's answer is no list"):
        [page async for page in client(line).pages(NODES)]
