"""The controller of nodes: one node never waits for another, and who has no slot, or none any more, is not touched."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import NODES, UPGRADES, Keep, UnavailableError
from nodeupgrade.fleet.actions import FreeSlot, Wait
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.controllers import snapshots
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import Passes, snapshots_of
from tests.scenario.rollout.harness import NAMESPACE, Scene

NAME = "to-1-33"
PASSES = 120
AGENTS = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")


async def stage(nodes: int, kube_type: type[InMemoryKube] = InMemoryKube) -> Scene:
    scene = Scene(kube_type=kube_type)
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.install_guard()
    await scene.apply(strategy={"maxConcurrent": nodes, "maxUnavailable": nodes})
    return scene


async def passes(scene: Scene, *, wanted: bool = True) -> AsyncIterator[None]:
    """Live through a rollout."""
    for _ in range(PASSES):
        yield
        await scene.look(NAME)
        if (await scene.upgrade(NAME)).finished:
            return
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    assert not wanted, "the rollout did not end"


class Slow(InMemoryKube):
    """Tells of the pods of a node that has its slot only when it is let."""

    slow = ""
    may_tell: asyncio.Event

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        if node == self.slow:
            await self.may_tell.wait()
        return await super().list_pods_on_node(node, keep)


async def test_a_node_whose_pods_are_long_in_coming_delays_nobody() -> None:
    scene = await stage(2, Slow)
    kube = scene.kube
    assert isinstance(kube, Slow)
    kube.may_tell = asyncio.Event()

    async def begun(node: str) -> bool:
        return (await kube.get_task(node)).spec.action is TaskAction.UPGRADE

    while len(await scene.in_flight()) < 2:
        await scene.look(NAME)
    kube.slow = "node-0"
    operator = Passes(kube, AGENTS)
    looking = asyncio.ensure_future(_until_begun(operator, "node-0", begun))
    async with asyncio.timeout(60):
        await _until_begun(operator, "node-1", begun)
        operator.renew(NAME)
        await operator.rollouts.reconcile(NAME)
        assert not await begun("node-0")
        kube.may_tell.set()
        await looking


async def _until_begun(operator: Passes, node: str, begun: object) -> None:
    assert callable(begun)
    while not await begun(node):
        operator.renew(NAME)
        await operator.nodes.reconcile(NAME, NodeName(node))


class Counting(InMemoryKube):
    """Knows how many nodes were looked at at the same time."""

    looking = most = 0

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        self.looking += 1
        self.most = max(self.most, self.looking)
        await asyncio.sleep(0.01)
        self.looking -= 1
        return await super().list_pods_on_node(node, keep)


async def test_only_so_many_nodes_are_looked_at_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "READS_AT_ONCE", 2)
    scene = await stage(6, Counting)
    async for _ in passes(scene):
        pass
    assert isinstance(scene.kube, Counting)
    assert scene.kube.most == 2


class Hanging(InMemoryKube):
    """Does not tell of the pods of one node, and never answers for the others."""

    broken_off = 0

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        if node == "node-0":
            raise UnavailableError("no answer")
        try:
            answer = asyncio.get_running_loop().create_future()
            return list[Json](await answer)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise


async def test_a_look_that_fails_ends_the_others() -> None:
    scene, kube = await stage(3), Hanging()
    fleet = await scene.operator.gather(NAME)
    with pytest.raises(UnavailableError):
        await snapshots_of(kube, AGENTS).with_pods(fleet, sorted(fleet.nodes))
    await asyncio.sleep(0)
    assert kube.broken_off == 2


async def test_where_the_spec_is_not_accepted_any_more_runs_are_judged_all_the_same() -> None:
    scene = await stage(1)
    while not (await scene.in_flight() and (await scene.kube.get_task("node-0")).reported.phase.terminal):
        await scene.look(NAME)
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"version": "v1.32.0"}})
    async for _ in passes(scene, wanted=False):
        pass
    rejected = {c.reason for c in (await scene.upgrade(NAME)).status.conditions}
    assert Reason.SPEC_CHANGE_REJECTED in rejected, rejected
    assert (await scene.kube.get_task("node-0")).verdict is not None
    assert await scene.in_flight() == ()


async def test_it_is_known_when_the_kubelet_has_been_listened_to() -> None:
    scene = await stage(1)
    async for _ in passes(scene):
        done = await scene.operator.reconcile(NAME)
        if known := [wait.until for wait in done.actions if isinstance(wait, Wait) and wait.until is not None]:
            assert done.wait_over_in == (min(known) - scene.now).total_seconds() > 0
            return
        assert done.wait_over_in is None
    raise AssertionError("nothing was waited for whose end is known")


async def test_who_has_no_slot_is_not_touched() -> None:
    scene = await stage(2)
    while len(await scene.in_flight()) < 2:
        await scene.look(NAME)
    status = (await scene.kube.get(UPGRADES, NAME))["status"]
    await scene.kube.replace_status(UPGRADES, NAME, {**status, "inFlight": [{"node": "node-1"}]})
    before = scene.kube._revision
    assert (await Passes(scene.kube, AGENTS).nodes.reconcile(NAME, NodeName("node-0"))).over
    assert scene.kube._revision == before
    assert not (await Passes(scene.kube, AGENTS).nodes.reconcile(NAME, NodeName("node-1"))).over
    assert scene.kube._revision > before, "the control: who has one is"


async def test_who_was_handed_over_is_not_touched() -> None:
    """Its slot may be gone at any moment, whatever becomes of the node meanwhile."""
    scene = await stage(1)
    while not await scene.in_flight():
        await scene.look(NAME)
    operator, node = Passes(scene.kube, AGENTS), NodeName("node-0")
    await scene.kube.merge(NODES, node, {"metadata": {"annotations": {"nodeupgrade.dev/hold": "wait"}}})
    assert (await operator.nodes.reconcile(NAME, node)).over
    assert isinstance(operator.snapshots.memory(NAME).waiting[node], FreeSlot)
    await scene.kube.merge(NODES, node, {"metadata": {"annotations": {"nodeupgrade.dev/hold": None}}})
    before = scene.kube._revision
    operator.renew(NAME)
    assert (await operator.nodes.reconcile(NAME, node)).over
    assert scene.kube._revision == before
    operator.renew(NAME)
    await operator.rollouts.reconcile(NAME)
    assert await scene.in_flight() == ()


@pytest.mark.parametrize("nodes", [1, 3])
async def test_a_plan_admits_no_node_that_is_refused_because_of_its_pods(nodes: int) -> None:
    """It would give its slot back, and be admitted again, for ever."""
    scene = await stage(nodes)
    await scene.fleet.add_pod("misplaced", "node-0", overrides={"spec": {"nodeSelector": {"pool": "of-old"}}})
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Plan", "strategy": {"maxConcurrent": 1}}})
    await scene.run(NAME, passes=60)
    status = (await scene.upgrade(NAME)).status
    assert (status.phase, status.counts.refused) == ("Planned", 1)
    assert [(each.node, each.reason) for each in status.failures] == [("node-0", "NodeAffinityNotMet")]
    assert not any(line.startswith("Admit node-0") for line in scene.story)
    assert sum(line.startswith("Admit") for line in scene.story) == nodes - 1


async def test_to_read_again_for_an_older_state_waits_for_nothing_later() -> None:
    """A write of the status meanwhile has shown that everything known is as new as what it names."""
    scene = await stage(1)
    fleet, before = InformedFleet(scene.kube, NAMESPACE, read_upgrade), await scene.upgrade(NAME)
    after = await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"seen": "yes"}}})
    fleet.learn(UPGRADES, after)
    async with asyncio.timeout(60):
        await fleet.read(before)
        await fleet.read(replace(before, resource_version=after["metadata"]["resourceVersion"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await fleet.read(replace(before, resource_version="1000000"))
