"""Between a look and an act: slots are freed meanwhile, reads come late, and writes fail oddly."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import (
    EVENTS,
    JOBS,
    TASKS,
    UPGRADES,
    ConflictError,
    Event,
    ForbiddenError,
    RejectedError,
    Resource,
    UnavailableError,
)
from nodeupgrade.controlplane import workers
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.fleet.actions import GuardParameters
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.controllers import plan_writer
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import NodeKey, Queues
from nodeupgrade.fleet.controllers.event_recorder import MOST_WAITING
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import flushed, snapshots_of
from tests.scenario.rollout.harness import ALLOWED, GUARD, NAMESPACE, START, Scene
from tests.scenario.rollout.terms import FixedTerm
from tests.scenario.rollout.test_takeover import at_work, set_ready

NAME = "to-1-33"
AGENTS = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=ALLOWED)
FIRST, SECOND = NodeName("node-0"), NodeName("node-1")


class Gated(InMemoryKube):
    """Lets something happen while it is asked: before one read is answered, while the status is written."""

    during_read: Callable[[], Awaitable[object]] | None = None
    during_list: Callable[[], Awaitable[object]] | None = None
    during_status: Callable[[], Awaitable[object]] | None = None
    begins_with: Exception | None = None
    late: Callable[[], Awaitable[Json]] | None = None
    refuses_status = forbids_jobs = dead = False
    asked = 0

    async def server_version(self) -> str:
        if (hook := self.during_read) is not None:
            self.during_read = None
            await hook()
        if self.dead:
            self.asked += 1
            await asyncio.sleep(0.01)
            raise UnavailableError("no answer")
        return await super().server_version()

    async def list(self, resource: Resource, **asked: Any) -> list[Json]:
        if (hook := self.during_list) is not None:
            self.during_list = None
            await hook()
        return await super().list(resource, **asked)

    async def get(self, resource: Resource, name: str) -> Json:
        if self.forbids_jobs and resource.plural == JOBS.plural:
            raise ForbiddenError("jobs.batch is forbidden")
        return await super().get(resource, name)

    async def merge(self, resource: Resource, name: str, patch: Json, **asked: Any) -> Json:
        if self.begins_with is not None and resource == TASKS and patch.get("spec", {}).get("action") == "Upgrade":
            error, self.begins_with = self.begins_with, None
            self.late = lambda: InMemoryKube.merge(self, resource, name, patch, **asked)
            raise error
        return await super().merge(resource, name, patch, **asked)

    async def replace_status(self, resource: Resource, name: str, status: Json, **asked: Any) -> Json:
        if self.refuses_status and resource == UPGRADES:
            raise RejectedError("admission webhook denied the request")
        if (hook := self.during_status) is not None and resource == UPGRADES:
            self.during_status = None
            await hook()
        return await super().replace_status(resource, name, status, **asked)


async def stage(nodes: int = 2, **spec: Any) -> tuple[Scene, Gated, Controllers]:
    """Two nodes, one at a time, and what is read is used for a second."""
    scene = Scene(kube_type=Gated)
    kube = scene.kube
    assert isinstance(kube, Gated)
    names = [f"node-{number}" for number in range(nodes)]
    for name in names:
        await scene.fleet.add_node(name)
    await scene.apply(**{"nodes": {"names": names}, **spec})

    def clock() -> float:
        return (scene.now - START).total_seconds()

    return scene, kube, Controllers(snapshots_of(kube, AGENTS, recent_seconds=1.0, clock=clock))


async def admitted(scene: Scene, own: Controllers, count: int = 1) -> None:
    while len(await scene.in_flight()) < count:
        await own.rollouts.reconcile(NAME)


async def handed_over(scene: Scene, own: Controllers) -> None:
    """The first node has its slot, and is to give it back."""
    await admitted(scene, own)
    await set_ready(scene, FIRST, ready=False)
    scene.now += timedelta(seconds=2)
    assert (await own.nodes.reconcile(NAME, FIRST)).over
    scene.now += timedelta(seconds=2)


@pytest.mark.parametrize("during", ["before", "caches", "status"])
async def test_what_was_read_before_a_slot_was_freed_touches_nothing(during: str) -> None:
    """An event lets the node be looked at again; the answer comes when its slot is long free, and the node is Ready."""
    scene, kube, own = await stage()
    await handed_over(scene, own)
    gate, looks = asyncio.Event(), list[asyncio.Task[Any]]()

    async def look() -> None:
        if during == "caches":
            await own.snapshots.of_rollout(NAME)  # it is recent, so that only the caches are read
            kube.during_list = gate.wait
        else:
            kube.during_read = gate.wait
        looks.append(asyncio.create_task(own.nodes.reconcile(NAME, FIRST)))
        await asyncio.sleep(0.01)

    if during == "status":
        kube.during_status = look
    else:
        await look()
    while await scene.in_flight() != (SECOND,):
        await own.rollouts.reconcile(NAME)
    await own.rollouts.reconcile(NAME)  # it has read that the slot is free
    await set_ready(scene, FIRST, ready=True)
    gate.set()
    done = [await looks[0], await own.nodes.reconcile(NAME, FIRST)]
    assert [each.applied for each in done] == [(), ()]
    scene.now += timedelta(seconds=2)
    for _ in range(4):
        await own.nodes.reconcile(NAME, SECOND)
    assert await at_work(scene) == {SECOND}


async def test_a_node_that_has_just_been_admitted_is_seen_to_be() -> None:
    """Although another one has read the NodeUpgrade while that was written."""
    scene, kube, own = await stage(strategy={"maxConcurrent": 1})
    await admitted(scene, own)
    await kube.merge(UPGRADES, NAME, {"spec": {"strategy": {"maxConcurrent": 2, "maxUnavailable": "100%"}}})
    while SECOND not in await scene.in_flight():
        kube.during_status = lambda: own.nodes.reconcile(NAME, FIRST)
        await own.rollouts.reconcile(NAME)
    assert not (await own.nodes.reconcile(NAME, SECOND)).over


@pytest.mark.parametrize("error", [UnavailableError("no answer"), RuntimeError("an answer that cannot be read")])
async def test_a_start_of_which_nobody_knows_what_became_gives_no_slot_away(error: Exception) -> None:
    scene, kube, own = await stage()
    kube.begins_with = error
    await admitted(scene, own)
    while kube.late is None:
        try:
            await own.nodes.reconcile(NAME, FIRST)
        except RuntimeError as bug:
            await own.nodes.crashed(NodeKey(NAME, FIRST), str(bug))
    await set_ready(scene, FIRST, ready=False)
    for _ in range(6):
        scene.now += timedelta(seconds=15)
        for name in await scene.in_flight():
            await own.nodes.reconcile(NAME, NodeName(name))
        await own.rollouts.reconcile(NAME)
    with pytest.raises(ConflictError):
        await kube.late()
    assert len(await at_work(scene)) <= 1


async def test_nodes_in_flight_go_on_although_the_status_cannot_be_written() -> None:
    """Under a new leader, which knows from nothing else that they are in flight."""
    scene, kube, own = await stage(1)
    await admitted(scene, own)
    await kube.merge(UPGRADES, NAME, {"spec": {"strategy": {"maxConcurrent": 3}}})
    kube.refuses_status, queues = True, Queues()

    new = Controllers(snapshots_of(kube, AGENTS), on_slot_unused=queues.rollouts.add, on_slots=queues.in_flight)
    working = asyncio.create_task(workers.reconcile_for_ever(queues, new, Metrics(), lambda _upgrade: None))
    try:
        async with asyncio.timeout(60):
            while not await at_work(scene):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_rollout_that_is_deleted_is_not_over_while_a_node_is_in_flight() -> None:
    scene, kube, own = await stage(1)
    await admitted(scene, own)
    for _ in range(4):
        await own.nodes.reconcile(NAME, FIRST)
    await kube.delete(UPGRADES, NAME)
    done = [await own.rollouts.reconcile(NAME) for _ in range(4)][-1]
    assert done.in_flight == (FIRST,)
    assert not done.over


async def test_it_is_told_that_the_jobs_of_hooks_cannot_be_read() -> None:
    scene, kube, _ = await stage(1, hooks={"before": [{"template": "silence", "timeout": "1m"}]})
    await scene.add_hook_template("silence")
    kube.forbids_jobs = True
    for _ in range(12):
        await scene.step()
    told = [each for each in (await scene.upgrade()).status.conditions if each.type == "Impeded"]
    assert "jobs.batch is forbidden" in told[0].message


async def test_a_read_that_fails_fails_for_all_who_wait_for_it() -> None:
    count = 20
    scene, kube, own = await stage(count, strategy={"maxConcurrent": count, "maxUnavailable": "100%"})
    await admitted(scene, own, count)
    scene.now += timedelta(seconds=2)
    kube.dead = True
    looks = [own.nodes.reconcile(NAME, NodeName(name)) for name in await scene.in_flight()]
    failed = await asyncio.gather(*looks, return_exceptions=True)
    assert all(isinstance(each, UnavailableError) for each in failed)
    assert kube.asked == 1


async def test_the_guard_is_not_written_for_one_who_has_been_cancelled() -> None:
    """Such as a former leader: what it wanted would go out with the first write of its next term."""

    class Hanging(InMemoryKube):
        gate: asyncio.Event | None = None

        async def merge(self, resource: Resource, name: str, patch: Json, **asked: Any) -> Json:
            if self.gate is not None:
                await self.gate.wait()
            return await super().merge(resource, name, patch, **asked)

    def seen(body: Json) -> GuardParameters:
        return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])

    kube = Hanging()
    before = seen(await kube.create(GUARD, {"metadata": {"name": GUARD_NAME}, "data": {}}))
    kube.gate, writer = asyncio.Event(), GuardWriter(kube, NAMESPACE)
    jobs = list[asyncio.Future[None]]()
    for key in "ab":
        jobs.append(asyncio.ensure_future(writer.write(before, {key: "old"})))
        await asyncio.sleep(0.01)
    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    kube.gate = None
    now = seen(await kube.merge(GUARD, GUARD_NAME, {"data": {"b": "new"}}))
    await writer.write(now, {"c": "x"})
    assert (await kube.get(GUARD, GUARD_NAME))["data"] == {"b": "new", "c": "x"}
    known = writer.latest(before)
    assert known is not None
    assert known.data == {"b": "new", "c": "x"}, "what was written is known without a read"


async def test_who_was_admitted_is_told_at_once() -> None:
    scene, kube, _ = await stage(2, strategy={"maxConcurrent": 1})
    told = list[tuple[NodeName, ...]]()
    own = Controllers(snapshots_of(kube, AGENTS), on_slots=lambda _upgrade, nodes: told.append(nodes))
    await admitted(scene, own)
    assert told[-2:] == [(), (FIRST,)], "as it was read, and as it was written"


async def test_a_leader_touches_no_node_before_it_has_taken_over() -> None:
    scene, kube, old = await stage(1)
    await admitted(scene, old)
    new, before = Controllers(snapshots_of(kube, AGENTS, term=FixedTerm("2-b"))), kube._revision
    assert (await new.nodes.reconcile(NAME, FIRST)).over
    assert kube._revision == before
    while (await scene.upgrade(NAME)).status.leader != "2-b":
        await new.rollouts.reconcile(NAME)
    assert (await new.nodes.reconcile(NAME, FIRST)).applied


class SlowClaims(InMemoryKube):
    """Takes its time with each claim, and never answers for some."""

    seconds = 0.0
    hanging: frozenset[str] = frozenset()

    async def create(self, resource: Resource, body: Json) -> Json:
        if resource == TASKS:
            await asyncio.sleep(60 if body["metadata"]["name"] in self.hanging else self.seconds)
        return await super().create(resource, body)


async def claiming(nodes: int) -> tuple[SlowClaims, Controllers]:
    scene = Scene(kube_type=SlowClaims)
    kube = scene.kube
    assert isinstance(kube, SlowClaims)
    names = [f"node-{number}" for number in range(nodes)]
    for name in names:
        await scene.fleet.add_node(name)
    await scene.apply(nodes={"names": names})
    own = Controllers(snapshots_of(kube, AGENTS))
    for _ in range(2):
        await own.rollouts.reconcile(NAME)
    return kube, own


async def test_claims_that_were_not_begun_are_left_to_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, own = await claiming(12)
    monkeypatch.setattr(plan_writer, "TASKS_AT_ONCE", 1)
    monkeypatch.setattr(plan_writer, "BEGIN_SECONDS", 0.1)
    kube.seconds = 0.04
    done = await own.rollouts.reconcile(NAME)
    assert 0 < len(await kube.list(TASKS)) < 12
    assert done.conflicted, "there is more to do"
    assert own.snapshots.memory(NAME).failures.setbacks(kube.utcnow()) == {}, "nobody was asked for them"


async def test_a_claim_that_is_not_answered_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, own = await claiming(3)
    monkeypatch.setattr(plan_writer, "PATIENCE_SECONDS", 0.05)
    kube.hanging = frozenset({"node-1"})
    async with asyncio.timeout(30):
        await own.rollouts.reconcile(NAME)
    assert {task["metadata"]["name"] for task in await kube.list(TASKS)} == {"node-0", "node-2"}
    assert [node for node, _ in own.snapshots.memory(NAME).failures.setbacks(kube.utcnow())] == ["node-1"]


async def test_events_of_a_former_term_are_dropped_and_so_are_those_that_nobody_could_catch_up_with() -> None:
    kube = InMemoryKube()
    own = Controllers(snapshots_of(kube, AGENTS))

    def event(number: int) -> Event:
        about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "u"}}
        return Event(regarding=about, reason=Reason.PROGRESSING, message=str(number), warning=False)

    own.recorder.record(event(number) for number in range(3))
    own.forget()
    await flushed(own.recorder)
    assert await kube.list(EVENTS) == []
    own.recorder.record(event(number) for number in range(MOST_WAITING + 5))
    await flushed(own.recorder)
    assert len(await kube.list(EVENTS)) == MOST_WAITING
