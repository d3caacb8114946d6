"""What follows at once on a write for a node, and what may not."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from nodeupgrade.engine.rollout.passes import PassOptions

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.domain.rollout.actions import Cordon, CreateAgent, Judge, Release, StartTask
from nodeupgrade.engine.rollout import reconcile
from nodeupgrade.engine.rollout.reader import InformedFleet
from nodeupgrade.ports.kube import UPGRADES
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import NAMESPACE, Scene

NAME = "to-1-33"
PASSES = 120
BEGINNING = {Cordon.__name__, StartTask.__name__, CreateAgent.__name__}
END = {Judge.__name__, Release.__name__}


async def stage(nodes: int, pace: PassOptions | None, kube_type: type[InMemoryKube] = InMemoryKube) -> Scene:
    scene = Scene(pace=pace, kube_type=kube_type)
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.apply(strategy={"maxConcurrent": nodes, "maxUnavailable": nodes})
    return scene


async def passes(scene: Scene) -> list[set[str]]:
    """Live through a rollout; the kinds of actions of each pass."""
    made = list[set[str]]()
    for _ in range(PASSES):
        made.append({type(action).__name__ for action in await scene.look(NAME)})
        if (await scene.upgrade(NAME)).finished:
            return made
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    raise AssertionError("the rollout did not end")


def old(seconds: Iterator[int]) -> PassOptions:
    """Whatever has been read was read long ago: at each look at the clock a minute has gone by."""
    return PassOptions(follow=3.0, clock=lambda: 60.0 * next(seconds))


@pytest.mark.parametrize(
    ("pace", "together"),
    [(PassOptions(follow=3.0, clock=lambda: 0.0), True), (old(count()), False), (None, False)],
    ids=["follows", "too-old", "control"],
)
async def test_one_pass_begins_a_run_and_one_ends_it(pace: PassOptions | None, together: bool) -> None:
    made = await passes(await stage(1, pace))
    assert any(kinds >= BEGINNING for kinds in made) is together
    assert any(kinds >= END for kinds in made) is together
    assert set().union(*made) >= BEGINNING | END


class Slow(InMemoryKube):
    """Tells of the pods of a node that has its slot only when it is let."""

    slow = ""
    may_tell: asyncio.Event

    async def list_pods_on_node(self, node: str) -> list[Json]:
        if node == self.slow:
            await self.may_tell.wait()
        return await super().list_pods_on_node(node)


@pytest.mark.parametrize("follow", [3.0, 0.0], ids=["follows", "control"])
async def test_a_node_whose_pods_are_long_in_coming_delays_nobody(follow: float) -> None:
    scene = await stage(2, PassOptions(patience=0.05, follow=follow, clock=lambda: 0.0), Slow)
    assert isinstance(scene.kube, Slow)
    scene.kube.may_tell = asyncio.Event()

    async def begun(node: str) -> bool:
        return (await scene.kube.get_task(node)).spec.action is TaskAction.UPGRADE

    while len(await scene.in_flight()) < 2:
        await scene.look(NAME)
    scene.kube.slow = "node-0"
    try:
        async with asyncio.timeout(60 if follow else 2):
            while not await begun("node-1"):
                await scene.look(NAME)
            await scene.look(NAME)  # while one pass looks, no other waits for that
    except TimeoutError:
        assert not follow
        return
    assert follow
    assert not await begun("node-0")
    scene.kube.may_tell.set()
    while not await begun("node-0"):
        await scene.look(NAME)


class Counting(InMemoryKube):
    """Knows how many nodes were looked at at the same time."""

    looking = most = 0

    async def list_pods_on_node(self, node: str) -> list[Json]:
        self.looking += 1
        self.most = max(self.most, self.looking)
        await asyncio.sleep(0.01)
        self.looking -= 1
        return await super().list_pods_on_node(node)


@pytest.mark.parametrize("follow", [3.0, 0.0])
async def test_only_so_many_nodes_are_looked_at_at_the_same_time(
    follow: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "READS_AT_ONCE", 2)
    scene = await stage(6, PassOptions(follow=follow, clock=lambda: 0.0), Counting)
    await passes(scene)
    assert isinstance(scene.kube, Counting)
    assert scene.kube.most == 2


@pytest.mark.parametrize("follow", [3.0, 0.0])
async def test_where_the_spec_is_not_accepted_any_more_runs_are_judged_all_the_same(follow: float) -> None:
    scene = await stage(1, PassOptions(follow=follow, clock=lambda: 0.0))
    while not (await scene.in_flight() and (await scene.kube.get_task("node-0")).reported.phase.terminal):
        await scene.look(NAME)
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"version": "v1.32.0"}})
    for _ in range(PASSES):
        await scene.look(NAME)
        scene.now += timedelta(seconds=1)
    rejected = {c.reason for c in (await scene.upgrade(NAME)).status.conditions}
    assert Reason.SPEC_CHANGE_REJECTED in rejected, rejected
    assert (await scene.kube.get_task("node-0")).verdict is not None
    assert await scene.in_flight() == ()


async def test_to_read_again_for_an_older_state_waits_for_nothing_later() -> None:
    """A write of the status meanwhile has shown that everything known is as new as what it names."""
    scene = await stage(1, None)
    fleet, before = InformedFleet(scene.kube, NAMESPACE), await scene.upgrade(NAME)
    after = await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"seen": "yes"}}})
    fleet.learn(UPGRADES, after)
    async with asyncio.timeout(60):
        await fleet.read(before)
        await fleet.read(replace(before, resource_version=after["metadata"]["resourceVersion"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await fleet.read(replace(before, resource_version="1000000"))
