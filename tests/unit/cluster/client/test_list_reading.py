"""Lists are read object by object, however they come."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.list_reading import read_list
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import ForbiddenError, TooLargeError, UnavailableError
from nodeupgrade.cluster.pods import for_watch
from tests.builders.kubeconfigs import write_kubeconfig

HEAD: Json = {"kind": "PodList", "metadata": {"resourceVersion": "7"}}
PODS: list[Json] = [
    {"metadata": {"name": "a", "annotations": {"said": '"items":[{"}]é\\'}}, "spec": {"containers": [{"items": []}]}},
    {"metadata": {"name": "b"}, "spec": {"containers": []}},
    {},
]


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def name(pod: Json) -> Json:
    return {"name": pod.get("metadata", {}).get("name")}


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 4096])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("answer", [{**HEAD, "items": PODS}, {"items": PODS, **HEAD}, {**HEAD, "items": []}])
async def test_a_list_is_the_same_in_whatever_pieces_it_comes(answer: Json, indent: int | None, size: int) -> None:
    text = json.dumps(answer, indent=indent, ensure_ascii=False).encode()
    read = await read_list(in_pieces(text, size), name, None)
    assert read == {**answer, "items": [name(pod) for pod in answer["items"]]}


async def test_what_has_no_items_is_read_as_it_is() -> None:
    for answer in ({**HEAD, "items": None}, HEAD):
        assert await read_list(in_pieces(json.dumps(answer).encode(), 5), name, None) == answer


NO_LISTS = (b"", b"[]", b"1", b'{"items":[1]}', b'{"items":[{}', b'{"items":[{}]} x', b'{"items":[NaN]}')


@pytest.mark.parametrize("text", [*NO_LISTS, b'{"items":[{"a":"\xff"}]}', b'{"items":[' + b"[" * 100_000])
async def test_what_is_no_list_of_objects_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        await read_list(in_pieces(text, 16384), name, None)


async def test_an_item_that_is_larger_than_wanted_ends_it() -> None:
    large = json.dumps({**HEAD, "items": [{"spec": "x" * 5000}]}).encode()
    assert await read_list(in_pieces(large, 100), name, 4096) is None
    many = json.dumps({**HEAD, "items": [{"spec": "x" * 500}] * 50}).encode()
    assert await read_list(in_pieces(many, 100), name, 4096) is not None


@pytest.mark.parametrize("size", [100, 700])
async def test_what_follows_a_large_item_is_no_part_of_it(size: int) -> None:
    text = json.dumps({**HEAD, "items": [{"spec": "x" * 2500}] * 4}).encode()
    assert await read_list(in_pieces(text, size), name, 4096) is not None


@asynccontextmanager
async def served(directory: Path, pods: Handler, largest: int | None = None) -> AsyncIterator[KubeClient]:
    """A client of an API server that answers so for the pods of a node."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await pods(request) if "fieldSelector" in request.query else web.json_response({**HEAD, "items": []})

    application = web.Application()
    application.router.add_get("/api/v1/pods", answer)
    async with TestServer(application) as there:
        config = write_kubeconfig(directory, f"http://127.0.0.1:{there.port}")
        patience = Patience(request_seconds=20, retry_seconds=0)
        async with KubeClient.open(config, None, patience, largest=largest) as kube:
            yield kube


ANNOTATED = 256 * 1024
"""The size of annotations that API servers allow for one object."""


@pytest.mark.parametrize(("count", "each", "too_large"), [(110, ANNOTATED, False), (2, 17 * 1024**2, True)])
async def test_the_pods_of_a_node_are_read_however_large_they_are_together(
    tmp_path: Path, count: int, each: int, too_large: bool
) -> None:
    """110 pods with as many annotations as an API server takes are 28 MiB; of one object, it takes no more than two."""
    pods: list[dict[str, Any]] = [
        {"metadata": {"name": f"p{i}", "uid": str(i), "annotations": {"a": "x" * each}}, "spec": {}}
        for i in range(count)
    ]

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({**HEAD, "items": pods})

    async with served(tmp_path, answer, largest=16 * 1024**2) as kube:
        if too_large:
            with pytest.raises(TooLargeError, match="more than 16777216 bytes"):
                await kube.list_pods_on_node("node-1", for_watch)
            return
        with pytest.raises(TooLargeError):
            await kube.list_pods_on_node("node-1")
        listed = await kube.list_pods_on_node("node-1", for_watch)
        assert [pod["metadata"]["name"] for pod in listed] == [pod["metadata"]["name"] for pod in pods]
        assert len(str(listed)) < 110 * 500
        watched = kube.watch_pods_on_node("node-1")
        assert (await anext(watched)).body["metadata"]["name"] == "p0"
        await watched.aclose()


async def test_a_list_that_is_no_longer_waited_for_leaves_no_connection(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async with served(tmp_path, answer) as kube:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(kube.list_pods_on_node("node-1", for_watch), 0.2)
        await asyncio.wait_for(left.wait(), 5)


async def test_a_list_that_breaks_off_is_no_answer(tmp_path: Path) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=json.dumps({**HEAD, "items": PODS}).encode()[:-40])

    async with served(tmp_path, answer) as kube:
        with pytest.raises(UnavailableError):
            await kube.list_pods_on_node("node-1", for_watch)


async def test_a_refusal_is_no_list(tmp_path: Path) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "not you"}, status=403)

    async with served(tmp_path, answer) as kube:
        with pytest.raises(ForbiddenError, match="not you"):
            await kube.list_pods_on_node("node-1", for_watch)
