"""What becomes of faults between us and a real API server: typed errors, repeated requests, and the same end."""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import (
    NODES,
    UPGRADES,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RejectedError,
    UnauthenticatedError,
    UnavailableError,
    WatchEvent,
)
from nodeupgrade.fleet.caches.informer import Informer, Relist, Timing
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.faulty_proxy import (
    FaultyProxy,
    Harm,
    Request,
    answer_is_lost,
    answers,
    breaks_after,
    faulty_proxy,
    is_silent,
    never_arrives,
    says,
    trickles,
)
from tests.contract.kube.test_watching import LABEL, node, position
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

SECONDS = 180
IMPATIENT = Patience(request_seconds=2.0, retry_seconds=1.0)


@dataclass
class Line:
    """A client, and the proxy that its requests go through."""

    kube: KubeClient
    proxy: FaultyProxy
    answered: list[tuple[str, str]]


@pytest.fixture
async def line(api_server: ApiServer) -> AsyncIterator[Line]:
    answered: list[tuple[str, str]] = []
    async with (
        faulty_proxy(api_server) as proxy,
        KubeClient.open(proxy.kubeconfig("admin"), answered=lambda *each: answered.append(each)) as kube,
    ):
        yield Line(kube, proxy, answered)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:12]


def a(method: str) -> Callable[[Request], bool]:
    return lambda request: request.method == method and not request.watching


def watching(request: Request) -> bool:
    return request.watching


# ── answers that are lost ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_create_whose_answer_is_lost_happened_once(line: Line, name: str) -> None:
    line.proxy.break_(a("POST"), answer_is_lost)
    with pytest.raises(ConflictError, match="already exists"):
        await line.kube.create(UPGRADES, upgrade_object(name))
    assert (await line.kube.get(UPGRADES, name))["metadata"]["generation"] == 1
    assert [code for _, code in line.answered] == ["none", "409", "200"]


async def test_a_guarded_write_whose_answer_is_lost_is_a_conflict(line: Line, name: str) -> None:
    version = (await line.kube.create(UPGRADES, upgrade_object(name)))["metadata"]["resourceVersion"]
    line.proxy.break_(a("PATCH"), answer_is_lost, times=2)
    with pytest.raises(ConflictError):
        await line.kube.merge(UPGRADES, name, {"spec": {"action": "Pause"}}, resource_version=version)
    after = await line.kube.get(UPGRADES, name)
    assert (after["spec"]["action"], after["metadata"]["generation"]) == ("Pause", 2)
    with pytest.raises(ConflictError):
        await line.kube.replace_status(UPGRADES, name, {"phase": "Running"}, resource_version=version)


async def test_a_status_whose_answer_is_lost_is_written_once(line: Line, name: str) -> None:
    version = (await line.kube.create(UPGRADES, upgrade_object(name)))["metadata"]["resourceVersion"]
    line.proxy.break_(a("PATCH"), answer_is_lost)
    with pytest.raises(ConflictError):
        await line.kube.replace_status(UPGRADES, name, {"phase": "Running"}, resource_version=version)
    assert (await line.kube.get(UPGRADES, name))["status"]["phase"] == "Running"


async def test_a_deletion_whose_answer_is_lost_is_one(line: Line, name: str) -> None:
    uid = (await line.kube.create(UPGRADES, upgrade_object(name)))["metadata"]["uid"]
    line.proxy.break_(a("DELETE"), answer_is_lost)
    await line.kube.delete(UPGRADES, name, uid=uid)
    with pytest.raises(NotFoundError):
        await line.kube.get(UPGRADES, name)


async def test_a_request_that_never_arrives_is_made_again(line: Line, name: str) -> None:
    line.proxy.break_(a("POST"), never_arrives, times=2)
    await line.kube.create(UPGRADES, upgrade_object(name))
    assert len(line.proxy.seen) == 3


# ── errors and what they are called ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (says(400, "bad"), InvalidError),
        (says(401, "who?"), UnauthenticatedError),
        (says(403, "not you"), ForbiddenError),
        (says(405, "no such verb"), RejectedError),
        (says(409, "changed"), ConflictError),
        (says(410, "forgotten"), ExpiredError),
        (says(422, "invalid"), InvalidError),
    ],
    ids=["400", "401", "403", "405", "409", "410", "422"],
)
async def test_what_will_not_pass_is_not_tried_again(line: Line, harm: Harm, expected: type[Exception]) -> None:
    line.proxy.break_(a("GET"), harm)
    with pytest.raises(expected) as caught:
        await line.kube.get(NODES, "any")
    assert type(caught.value) is expected
    assert len(line.proxy.seen) == 1


@pytest.mark.parametrize(
    "harm",
    [
        says(500, "oh"), says(503, "soon"), says(504, "slow"), answers(502, b"<html>"), answers(200, b"<html>"),
        breaks_after(40), never_arrives,
    ],
    ids=["500", "503", "504", "502", "no JSON", "broken off", "no answer"],
)  # fmt: skip
async def test_what_may_pass_is_tried_again(line: Line, name: str, harm: Harm) -> None:
    await line.kube.create(UPGRADES, upgrade_object(name))
    line.proxy.break_(a("GET"), harm, times=2)
    assert (await line.kube.get(UPGRADES, name))["metadata"]["name"] == name
    assert len(line.proxy.harmed) == 2


async def test_whoever_asks_for_time_is_given_it(line: Line) -> None:
    line.proxy.break_(a("GET"), says(429, "busy", Retry_After="2"))
    began = time.monotonic()
    await line.kube.server_version()
    assert time.monotonic() - began >= 2


@pytest.mark.parametrize(
    ("harm", "after"), [(says(503, "away"), 0.0), (is_silent, 0.0), (says(429, "busy", Retry_After="70"), 70.0)]
)
async def test_nobody_waits_for_ever(api_server: ApiServer, harm: Harm, after: float) -> None:
    async with faulty_proxy(api_server) as proxy:
        proxy.break_(a("GET"), harm, times=1000)
        async with KubeClient.open(proxy.kubeconfig("admin"), patience=IMPATIENT) as kube:
            began = time.monotonic()
            with pytest.raises(UnavailableError) as caught:
                await kube.server_version()
    assert time.monotonic() - began < 30
    assert caught.value.after == after


async def test_an_answer_that_trickles_arrives(line: Line, name: str) -> None:
    await line.kube.create(UPGRADES, upgrade_object(name))
    line.proxy.break_(a("GET"), trickles(100, 0.001))
    assert (await line.kube.get(UPGRADES, name))["metadata"]["name"] == name


async def test_the_real_one_says_invalid_and_forbidden(api_server: ApiServer, line: Line, name: str) -> None:
    with pytest.raises(InvalidError):
        await line.kube.create(UPGRADES, upgrade_object(name, version="1.33"))
    async with KubeClient.open(api_server.kubeconfig("nobody")) as nobody:
        with pytest.raises(ForbiddenError):
            await nobody.get(NODES, name)


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_list_that_expires_between_pages_is_made_anew(
    line: Line, api_server: ApiServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeupgrade.cluster.client.requesting.PAGE_SIZE", 2)
    for letter in "abcde":
        await line.kube.create(NODES, node(name, letter))
    pages = line.kube.pages(NODES, labels={LABEL: name})
    assert len((await anext(pages)).items) == 2
    await line.kube.create(NODES, node(name, "f"))
    api_server.compact()
    with pytest.raises(ExpiredError):
        await anext(pages)
    line.proxy.break_(lambda request: "continue=" in request.target, says(410, "forgotten"))
    assert len(await line.kube.list(NODES, labels={LABEL: name})) == 6


# ── watches and the informer ────────────────────────────────────────────────────────────────────────────────────────


async def add(kube: KubeClient, mark: str, name: str) -> Json:
    return await kube.create(NODES, node(mark, name))


async def first_event(kube: KubeClient, mark: str, since: str) -> WatchEvent:
    events = kube.watch(NODES, resource_version=since, labels={LABEL: mark})
    async with asyncio.timeout(SECONDS), contextlib.aclosing(events):
        return await anext(events)


EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}\n'
INTERNAL = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd says no"}}\n'


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (says(410, "forgotten"), ExpiredError),
        (answers(200, EXPIRED), ExpiredError),
        (answers(200, INTERNAL), UnavailableError),
        (answers(200, b'{"type":"ADDED","obj\n'), UnavailableError),
        (answers(200, b'{"type":"NEWS","object":{}}\n'), UnavailableError),
        (answers(200, b"[]\n"), UnavailableError),
        (says(403, "not you"), ForbiddenError),
        (says(503, "away"), UnavailableError),
        (breaks_after(100), UnavailableError),
        (never_arrives, UnavailableError),
    ],
    ids=["410", "ERROR 410", "ERROR 500", "torn", "unknown", "no object", "403", "503", "reset", "no answer"],
)
async def test_what_ends_a_watch_says_what_to_do(line: Line, name: str, harm: Harm, expected: type[Exception]) -> None:
    since = await position(line.kube, name)
    await add(line.kube, name, "a")
    line.proxy.break_(watching, harm, times=2)  # the HTTP library asks a second time when it hears nothing at all
    with pytest.raises(expected):
        await first_event(line.kube, name, since)
    line.proxy.heal()
    assert (await first_event(line.kube, name, since)).body["metadata"]["name"] == f"a-{name}"


async def test_events_that_trickle_are_whole(line: Line, name: str) -> None:
    since = await position(line.kube, name)
    created = await add(line.kube, name, "a")
    line.proxy.break_(watching, trickles(50, 0.001))
    assert (await first_event(line.kube, name, since)).body["metadata"] == created["metadata"]


HARMS: dict[str, tuple[Callable[[Request], bool], Harm, int]] = {
    "410 on watch": (watching, says(410, "forgotten"), 3),
    "410 in the stream": (watching, answers(200, EXPIRED), 3),
    "500 in the stream": (watching, answers(200, INTERNAL), 6),
    "403 on watch": (watching, says(403, "not you"), 3),
    "resets": (watching, breaks_after(300), 5),
    "429": (watching, says(429, "busy", Retry_After="1"), 2),
    "500 on list": (a("GET"), says(500, "oh"), 3),
    "410 on list": (a("GET"), says(410, "forgotten"), 3),
    "trickle": (watching, trickles(64, 0.0005), 5),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
async def test_an_informer_comes_to_the_truth(
    admin: KubeClient, line: Line, name: str, harm: tuple[Callable[[Request], bool], Harm, int]
) -> None:
    """Whatever breaks while objects come, change and go, in the end exactly what is there is known."""

    async def quick(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.1))

    changed = asyncio.Event()
    informer = Informer(
        line.kube, NODES, lambda body: body["metadata"]["resourceVersion"], labels={LABEL: name},
        on_change=lambda _: changed.set(), timing=Timing(sleep=quick),
    )  # fmt: skip
    await add(admin, name, "a")
    line.proxy.break_(*harm)
    running = asyncio.ensure_future(informer.run())
    try:
        async with asyncio.timeout(SECONDS):
            for n in itertools.count():
                if len(line.proxy.harmed) >= harm[2] and n >= 5:
                    break
                await add(admin, name, f"n{n}")
                await asyncio.sleep(0.05)
                line.proxy.drop_all()
        await admin.delete(NODES, f"a-{name}")
        await admin.merge(NODES, f"n0-{name}", {"spec": {"unschedulable": True}})
        found = await admin.list(NODES, labels={LABEL: name})
        truth = {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in found}
        async with asyncio.timeout(SECONDS):
            while informer.views != truth:
                changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await changed.wait()
        assert informer.relists[Relist.START] == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
