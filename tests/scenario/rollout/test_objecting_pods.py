"""Pods speak against many nodes: of each, what they object to is kept, and a plan reads the pods of few nodes."""

import gc
from datetime import datetime, timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, Keep
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.controlplane.workers import requeue_after
from nodeupgrade.fleet.controllers import rollout_controller
from nodeupgrade.fleet.controllers.rollout_memory import PODS_RECENT
from nodeupgrade.fleet.decide import planner
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import Scene

NAME, NODES_OF_FLEET, PODS_ON_NODE = "to-1-33", 60, 5
READ, AHEAD = 16, 8
LAST = f"node-{NODES_OF_FLEET - 1:02}"


class Relabelled(InMemoryKube):
    """Serves the pods of a pool that was relabelled: the node selectors of some are not met any more."""

    content: set[str]  # nodes whose pods object to nothing
    read: list[tuple[datetime, str]]  # whose pods were read, and when
    most_alive: int | None = None  # how many pods were in memory at the same time, at most; None if nobody asks

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        self.read.append((self.clock(), node))
        self.most_alive = None if self.most_alive is None else max(self.most_alive, alive())
        unmet: Json = {} if node in self.content else {"nodeSelector": {"pool-name": "old"}}
        return [served(node, number, unmet if number == 0 else {}) for number in range(PODS_ON_NODE)]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.read]


def served(node: str, number: int, spec: Json) -> Json:
    name = f"web-{node}-{number}"
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {"note": "x" * 100}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "registry.example/web"}], **spec},
        "status": {"phase": "Running"},
    }


def alive() -> int:
    return sum(isinstance(each, Pod) for each in gc.get_objects())


async def stage(*content: str, nodes: int = NODES_OF_FLEET) -> tuple[Scene, Relabelled]:
    """A planned rollout of nodes, none of which was admitted yet; on all but these, pods object."""
    scene = Scene(kube_type=Relabelled)
    kube = scene.kube
    assert isinstance(kube, Relabelled)
    kube.content, kube.read = {f"node-{number:02}" for number in range(nodes)}, []
    for name in sorted(kube.content):
        await scene.fleet.add_node(name)
    await scene.apply(windows=[{"start": "0 1 * * *", "duration": "20h"}])
    while len(await scene.kube.list(TASKS)) < nodes:
        await look(scene)
    assert kube.read == [], "pods were read before the window opened"
    kube.content = set(content)
    scene.now += timedelta(hours=2)
    return scene, kube


async def look(scene: Scene) -> float | None:
    """Plan once; return in how many seconds the next plan is due."""
    scene.operator.renew(NAME)
    return requeue_after(await scene.operator.rollouts.reconcile(NAME))


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_controller, "MOST_READ", READ)
    monkeypatch.setattr(planner, "READ_AHEAD", AHEAD)


async def test_a_plan_reads_the_pods_of_few_nodes_and_keeps_none_of_those_that_object() -> None:
    scene, kube = await stage()
    gc.collect()
    before = kube.most_alive = alive()
    again: float | None = 0.0
    while len(set(kube.names)) < NODES_OF_FLEET:
        assert again == 0.0, "nodes are left, and the next plan is not due at once"
        kube.read.clear()
        known = set(scene.operator.snapshots.memory(NAME).objections)
        again = await look(scene)
        assert 0 < len(kube.read) <= READ
        assert not known & set(kube.names), "read again within a minute"
        if len(scene.operator.snapshots.memory(NAME).objections) == NODES_OF_FLEET:
            break
    gc.collect()
    assert alive() == before
    assert before < kube.most_alive <= before + 2 * AHEAD * PODS_ON_NODE
    assert (await scene.upgrade()).status.counts.refused == NODES_OF_FLEET


async def test_the_last_node_has_its_turn_although_pods_object_on_all_others() -> None:
    scene, _ = await stage(LAST)
    for _ in range(NODES_OF_FLEET // READ + 1):
        await look(scene)
        scene.now += 2 * PODS_RECENT  # the API server takes its time
    assert await scene.in_flight() == (LAST,)


@pytest.mark.parametrize("others", ["target", "hold", "as they are"])
async def test_a_node_is_read_again_whatever_speaks_against_others(others: str) -> None:
    scene, kube = await stage()
    while len(scene.operator.snapshots.memory(NAME).objections) < NODES_OF_FLEET:
        await look(scene)
    for number in range(NODES_OF_FLEET // 2):
        name = f"node-{number:02}"
        if others == "hold":
            await scene.kube.merge(NODES, name, {"metadata": {"annotations": {"nodeupgrade.dev/hold": "true"}}})
        if others == "target":
            status = (await scene.kube.get(NODES, name))["status"]
            info = {**status["nodeInfo"], "kubeletVersion": "v1.33.13"}
            await scene.kube.replace_status(NODES, name, {**status, "nodeInfo": info})
    kube.content = {"node-50"}
    scene.now += PODS_RECENT
    for _ in range(NODES_OF_FLEET // READ + 1):
        await look(scene)
    assert await scene.in_flight() == ("node-50",)


@pytest.mark.parametrize("how", ["paused", "window"])
async def test_what_pods_objected_to_long_ago_says_nothing_of_a_rollout_that_waits(how: str) -> None:
    scene, kube = await stage(nodes=1)
    await look(scene)
    assert (await scene.upgrade()).status.phase == "Stalled"
    kube.content = {"node-00"}
    if how == "paused":
        await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/pause": "true"}}})
    else:
        scene.now += timedelta(hours=20)
    kube.read.clear()
    for _ in range(3):
        scene.now += PODS_RECENT
        await look(scene)
    assert kube.read == []
    assert (await scene.upgrade()).status.phase == ("Paused" if how == "paused" else "WaitingForWindow")


async def test_a_node_whose_labels_are_restored_is_read_at_once() -> None:
    scene, kube = await stage(nodes=3)
    await look(scene)
    kube.read.clear()
    await scene.kube.merge(NODES, "node-01", {"metadata": {"labels": {"pool-name": "old"}}})
    await look(scene)
    assert kube.names == ["node-01"]
    assert await scene.in_flight() == ("node-01",)
