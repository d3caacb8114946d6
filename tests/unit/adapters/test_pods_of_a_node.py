"""A node's pods are answered from the API server's index, and are never older than the question."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.adapters.kube import client as client_module
from nodeupgrade.adapters.kube.client import VERSION_SECONDS
from nodeupgrade.adapters.kube.transport import AheadError, Transport, failure
from nodeupgrade.api.json import Json
from nodeupgrade.ports.kube import EVENTS, NODES, PODS, WatchEventType

POD: Json = {"metadata": {"name": "web", "uid": "u", "resourceVersion": "40"}}
VERSION: tuple[str, Json] = ("/version", {})
CONSISTENT = ("/api/v1/pods", {"fieldSelector": "spec.nodeName=a"})
NOW = ("/api/v1/namespaces/kube-node-lease/pods", {"limit": "1"})
INDEXED = (
    "/api/v1/pods",
    {"fieldSelector": "spec.nodeName=a", "resourceVersion": "42", "resourceVersionMatch": "NotOlderThan"},
)
EXACT = ("/api/v1/pods", {"limit": "500", "fieldSelector": "spec.nodeName=a"})


@dataclass
class Line:
    """Writes down what is asked; ``lags``: the API server's cache has not come as far as its etcd."""

    lags: bool = False
    version: str = "v1.30.14-gke.1"
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    watched: list[Mapping[str, str]] = field(default_factory=list)

    async def request(self, _method: str, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        query = query or {}
        self.asked.append((path, dict(query)))
        if path == "/version":
            return {"gitVersion": self.version}
        if self.lags and "resourceVersionMatch" in query:
            raise failure(f"GET {path}", 504, "Timeout: Too large resource version: 42, current: 41")
        return {"metadata": {"resourceVersion": "42"}, "items": [] if "namespaces" in path else [POD]}

    async def lines(self, _path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        self.watched.append(dict(query))
        for line in list[bytes]():
            yield line


def client(line: Line) -> KubeClient:
    return KubeClient(cast("Transport", line))


async def test_the_index_is_asked_for_the_state_of_this_moment() -> None:
    line = Line()
    (pod,) = await client(line).list_pods_on_node("a")
    assert pod["metadata"] == POD["metadata"]
    assert line.asked == [VERSION, NOW, INDEXED]


@pytest.mark.parametrize(("version", "consistent"), [("v1.31.0", True), ("v1.30.14", False), ("unknown", False)])
async def test_a_cache_that_is_consistent_is_asked_without_a_detour(version: str, consistent: bool) -> None:
    line = Line(version=version)
    kube = client(line)
    for _ in range(2):
        assert len(await kube.list_pods_on_node("a")) == 1
    assert line.asked == [VERSION, *(2 * ([CONSISTENT] if consistent else [NOW, INDEXED]))]


async def test_a_version_that_somebody_asked_for_is_not_asked_for_again() -> None:
    line = Line(version="v1.31.0")
    kube = client(line)
    await kube.server_version()
    await kube.list_pods_on_node("a")
    assert line.asked == [VERSION, CONSISTENT]


async def test_the_latest_answer_counts_and_none_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """API servers are upgraded, and of several behind one address any may answer."""
    now = 1000.0
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: now))
    line = Line(version="v1.30.14")
    kube = client(line)
    await kube.list_pods_on_node("a")
    line.version = "v1.31.0"
    await kube.server_version()
    await kube.list_pods_on_node("a")
    line.version = "v1.30.14"
    now += VERSION_SECONDS
    await kube.list_pods_on_node("a")
    assert line.asked == [VERSION, NOW, INDEXED, VERSION, CONSISTENT, VERSION, NOW, INDEXED]


async def test_where_the_cache_does_not_come_so_far_etcd_is_asked_and_for_a_while_at_once() -> None:
    line = Line(lags=True)
    kube = client(line)
    assert len(await kube.list_pods_on_node("a")) == 1
    assert len(await kube.list_pods_on_node("a")) == 1
    assert line.asked == [VERSION, NOW, INDEXED, EXACT, EXACT]


async def test_a_watch_begins_with_such_a_list() -> None:
    line = Line()
    events = [event async for event in client(line).watch_pods_on_node("a")]
    assert [(event.change, event.body["metadata"]["name"]) for event in events] == [(WatchEventType.ADDED, "web")]
    assert line.asked == [VERSION, NOW, INDEXED]
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


def test_only_a_version_that_is_ahead_is_not_tried_again() -> None:
    assert isinstance(failure("x", 504, "Timeout: Too large resource version: 9, current: 8"), AheadError)
    assert not isinstance(failure("x", 504, "the request timed out"), AheadError)
