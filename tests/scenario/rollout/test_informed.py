"""The operator as it runs in a cluster, fed by informers: the same decisions, and no budget overrun by stale caches."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, Page, Resource, UnavailableError, WatchEvent
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.informer import Timing
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.controllers.result import Result
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator, Part
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, START, Scene, upgrade_object

NAME = "to-1-33"


class Lagging(WriteThrough):
    """An API server whose watches tell nothing until they are allowed to; lists are as fresh as ever."""

    def __init__(self, kube: TypedKube, allowed: int) -> None:
        super().__init__(kube, InformedFleet(kube, NAMESPACE, read_upgrade))
        self._allowed = allowed
        self._more = asyncio.Event()
        self.lists_of_upgrades = 0

    def allow(self, events: int) -> None:
        self._allowed += events
        self._more.set()
        self._more = asyncio.Event()

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(resource, resource_version=resource_version, labels=labels, fields=fields):
            while self._allowed <= 0:
                await self._more.wait()
            self._allowed -= 1
            yield event

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        self.lists_of_upgrades += resource == UPGRADES
        return super().pages(resource, labels=labels)


@dataclass
class Operator:
    """One operator with caches of its own."""

    kube: TypedKube
    allowed: int = 10**9
    timing: Timing = Timing(patience=0.0, list_timeout=10.0)
    changed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = Lagging(self.kube, self.allowed)
        on_change, timing = self.changed.append, self.timing
        self.fleet = InformedFleet(self.source, NAMESPACE, read_upgrade, on_change=on_change, timing=timing)
        agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
        self.rollouts = Passes(WriteThrough(self.kube, self.fleet), agents, fleet=self.fleet)

    def lists(self) -> list[int]:
        return [self.fleet.nodes.relists.total(), self.fleet.tasks.relists.total(), self.fleet.agents.relists.total()]

    async def reconcile(self) -> Result:
        return await self.rollouts.reconcile(NAME)


@asynccontextmanager
async def running(*operators: Operator) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(operator.fleet.run()) for operator in operators]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def news_arrives() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


PARTS = {"node-1": Part.ROLL_BACK, "node-3": Part.LIE}


async def staged(scene: Scene) -> Scene:
    for n in range(5):
        await scene.fleet.add_node(f"node-{n}")
        await scene.fleet.add_pod(f"web-{n}", f"node-{n}")
    await scene.apply(NAME, strategy={"maxConcurrent": 2, "failureThreshold": 2})
    return scene


async def test_decides_the_same_as_with_live_lists() -> None:
    live, informed = await staged(Scene(parts=PARTS)), await staged(Scene(parts=PARTS))
    await live.run()
    operator = Operator(informed.kube)
    informed.operator = operator.rollouts
    async with running(operator):
        for _ in range(120):
            if await informed.step():
                break
            await news_arrives()
    assert informed.story == live.story
    assert await informed.end_state() == await live.end_state()
    assert set(operator.changed) == {f"node-{n}" for n in range(5)}
    assert sum(operator.lists()) <= 6, "own writes need no list to be known"


async def test_heartbeats_of_nodes_concern_nobody() -> None:
    scene = await staged(Scene())
    operator = Operator(scene.kube)
    async with running(operator):
        await operator.reconcile()
        await news_arrives()
        operator.changed.clear()
        node = await scene.node("node-0")
        await scene.kube.replace_status(NODES, "node-0", {**node["status"], "images": [{"names": ["a"]}]})
        await news_arrives()
        assert operator.changed == []
        await scene.kube.replace_status(NODES, "node-0", {**node["status"], "conditions": []})
        await news_arrives()
        assert operator.changed == ["node-0"]


async def test_a_task_that_cannot_be_read_is_held_and_stands_in_nobodys_way() -> None:
    scene = await staged(Scene())
    broken = {"apiVersion": TASKS.api_version, "kind": TASKS.kind, "metadata": {"name": "node-2"}, "spec": {"new": 1}}
    scene.kube.schemas = False
    await scene.kube.create(TASKS, broken)
    scene.kube.schemas = True
    await scene.run()
    status = (await scene.upgrade()).status
    assert (status.counts.succeeded, status.counts.refused) == (4, 1)
    assert [(failure.node, failure.reason) for failure in status.failures] == [("node-2", "ObjectUnreadable")]
    assert (await scene.kube.get(TASKS, "node-2"))["spec"] == {"new": 1}


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["A", "B", "tick", "tick", "A", "B"]),
        st.tuples(st.sampled_from("AB"), st.integers(1, 8)),
    ),
    min_size=20,
    max_size=80,
)


@settings(deadline=None, max_examples=6)
@given(STEPS)
def test_two_operators_with_stale_caches_keep_every_budget(steps: list[str | tuple[str, int]]) -> None:
    asyncio.run(two_operators(steps))


async def two_operators(steps: list[str | tuple[str, int]]) -> None:
    now = START
    kube = InMemoryKube(clock=lambda: now)
    nodes = FleetSimulator(kube, NAMESPACE, parts={f"node-{n}": Part.ROLL_BACK for n in range(1, 6)})
    for n in range(6):
        await nodes.add_node(f"node-{n}")
    await kube.create(UPGRADES, upgrade_object(NAME, strategy={"maxConcurrent": 2, "failureThreshold": 1}))
    operators = {"A": Operator(kube, allowed=0), "B": Operator(kube, allowed=0)}
    async with running(*operators.values()):
        for step in steps:
            now += timedelta(seconds=1)
            match step:
                case "tick":
                    await nodes.tick()
                case (name, events):
                    operators[name].source.allow(events)
                case _:
                    await operators[step].reconcile()
            await news_arrives()
            await budgets_hold(kube)
        for operator in operators.values():
            operator.source.allow(10**9)
        for _ in range(200):
            now += timedelta(seconds=1)
            await nodes.tick()
            await news_arrives()
            done = [await operator.reconcile() for operator in operators.values()]
            await budgets_hold(kube)
            if not any(each.changed or each.conflicted or each.in_flight for each in done):
                break
    tasks = [parse_task(body) for body in await kube.list(TASKS)]
    assert any(task.verdict and task.verdict.outcome == "RolledBack" for task in tasks), "the rollout went on"


async def budgets_hold(kube: InMemoryKube) -> None:
    upgrade = parse_upgrade(await kube.get(UPGRADES, NAME))
    tasks = [parse_task(body) for body in await kube.list(TASKS)]
    touched = {body["metadata"]["name"] for body in await kube.list(NODES) if body["spec"].get("unschedulable")}
    at_work = {task.name for task in tasks if task.spec.action == "Upgrade" and not task.reported.phase.terminal}
    failed = [task.name for task in tasks if task.verdict and task.verdict.outcome != "Succeeded"]
    slots = set(upgrade.status.flying)
    assert len(slots) <= 2
    assert touched | at_work <= slots, f"{touched | at_work} touched, {slots} have a slot"
    assert len(failed) <= 2, "one that may fail, and one in flight beside it"


async def test_whoever_is_behind_starts_nothing_that_is_over() -> None:
    """The second operator has seen nothing since before the first failure; it must not make room for more."""
    scene = Scene(parts={f"node-{n}": Part.ROLL_BACK for n in range(5)})
    await staged(scene)
    first, second = Operator(scene.kube), Operator(scene.kube, allowed=0)
    scene.operator = first.rollouts
    async with running(first, second):
        await news_arrives()
        for _ in range(60):
            await scene.step()
            await news_arrives()
        failed = [name for name, (_, outcome) in (await scene.end_state())["tasks"].items() if outcome]
        scene.operator = second.rollouts
        before = await scene.end_state()
        for _ in range(20):
            await scene.step()
    assert await scene.end_state() == before
    assert len(failed) == 2


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_foreign_write_is_waited_for(fresh: bool) -> None:
    """Whoever reads the NodeUpgrade as somebody else wrote it believes in nothing that is older."""
    scene = await staged(Scene())
    operator = Operator(scene.kube, allowed=0)
    async with running(operator):
        await operator.reconcile()
        lists = operator.lists()
        if not fresh:
            await scene.kube.merge(NODES, "node-4", {"metadata": {"labels": {"pool": "db"}}})
            await scene.kube.merge(UPGRADES, NAME, {"metadata": {"labels": {"a": "b"}}})
        seen = await operator.fleet.read(await scene.upgrade())
        assert (seen.nodes["node-4"].labels["pool"] == "db") is not fresh  # type: ignore[index]
        assert operator.lists() == (lists if fresh else [before + 1 for before in lists])


@pytest.mark.parametrize(("kept", "lost"), [(4, 2), (8, 5), (20, 2), (20, 20), (12, 100)])
async def test_an_api_server_that_was_restored_from_a_backup_is_believed(kept: int, lost: int) -> None:
    """Its watches tell nothing until it has come as far as before, and most of what is cached has not happened.

    What it knows of the NodeUpgrade itself may be all that did: then a slot may be freed that is needed.
    """
    scene = Scene()
    for n in range(4):
        await scene.fleet.add_node(f"node-{n}")
    await scene.apply(NAME)

    def seconds() -> float:
        return scene.now.timestamp()

    timing = Timing(monotonic=seconds, sleep=lambda _seconds: asyncio.sleep(0), patience=0.0)
    operator, kube = Operator(scene.kube, timing=timing), scene.kube
    scene.operator = operator.rollouts
    async with running(operator):
        for _ in range(kept):
            await scene.step()
            await news_arrives()
        objects, revision, written = dict(kube._objects), kube._revision, len(kube.log._entries)
        for _ in range(lost):
            await scene.step()
            await news_arrives()
        kube._objects, kube._revision = objects, revision
        del kube.log._entries[written:]
        for step in range(400):
            if step % 90 == 0:  # no connection is silent for longer
                kube.log.drop()
            for name in await operator.rollouts.unfinished():
                await operator.rollouts.reconcile(name)
            await operator.rollouts.sweep()
            await scene.fleet.tick()
            scene.now += timedelta(seconds=1)
            await news_arrives()
    nodes = (await scene.end_state())["nodes"]
    done = {"version": "v1.33.13", "unschedulable": False, "ours": False}
    assert nodes == {f"node-{n}": done for n in range(4)}
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_it_is_believed_also_once_everything_can_be_listed_again() -> None:
    scene = await staged(Scene())
    operator, kube = Operator(scene.kube), scene.kube
    async with running(operator):
        await operator.reconcile()
        objects, revision, written = dict(kube._objects), kube._revision, len(kube.log._entries)
        await kube.merge(NODES, "node-4", {"metadata": {"labels": {"pool": "db"}}})
        await news_arrives()
        for _ in range(3):
            await operator.reconcile()
        kube._objects, kube._revision = objects, revision
        del kube.log._entries[written:]
        kube.log.drop()
        upgrade = await scene.upgrade()

        def refuse(*_asked: object, **_more: object) -> NoReturn:
            raise UnavailableError("no answer")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operator.source, "pages", refuse)
            with pytest.raises(UnavailableError):
                await operator.fleet.read(upgrade)
        operator.fleet.learn(UPGRADES, await kube.get(UPGRADES, NAME))
        seen = await operator.fleet.read(upgrade)
        assert seen.nodes["node-4"].labels["pool"] == "web"  # type: ignore[index]


async def test_an_older_rollout_is_known_without_any_event_and_without_a_list_on_every_pass() -> None:
    scene = await staged(Scene())
    await scene.apply("younger")
    operator = Operator(scene.kube)
    async with running(operator):
        for _ in range(4):
            await operator.rollouts.reconcile("younger")
            await news_arrives()
        assert "Queued" in {condition.reason for condition in (await scene.upgrade("younger")).status.conditions}
        assert operator.source.lists_of_upgrades == 1

        # What kopf tells is known at once.
        body = await scene.kube.get(UPGRADES, NAME)
        operator.fleet.upgrades.forget(NAME, body["metadata"]["uid"])
        await operator.rollouts.reconcile("younger")
        assert "Queued" not in {condition.reason for condition in (await scene.upgrade("younger")).status.conditions}
        assert operator.source.lists_of_upgrades == 1
