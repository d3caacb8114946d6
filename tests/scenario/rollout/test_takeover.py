"""A leader is paused with a write in its hand, another one leads meanwhile, and then the write arrives."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ConflictError, NotLeadingError, RejectedError, Resource
from nodeupgrade.fleet.actions import FreeSlot, NodeAction, StartTask, WriteStatus
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.controllers.actuator import Actuator
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from nodeupgrade.fleet.decide.flight import advance
from nodeupgrade.fleet.leadership.lease import term_of
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import Passes, decisions, snapshots_of
from tests.scenario.rollout.harness import NAMESPACE, Scene
from tests.scenario.rollout.terms import FixedTerm

AGENTS = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")


async def held_back(scene: Scene, kind: type[NodeAction]) -> tuple[Actuator, NodeAction]:
    """Let the first leader work until it is about to do this; return what it would do, and with what."""
    while True:
        fleet = await scene.operator.gather("to-1-33")
        for action in decisions(fleet, scene.now):
            if isinstance(action, kind):
                own = Controllers(snapshots_of(scene.kube, AGENTS))
                return Actuator(own.snapshots, fleet, RolloutMemory(), own.recorder), action
        await scene.step()


async def set_ready(scene: Scene, name: str, *, ready: bool) -> None:
    status = (await scene.kube.get(NODES, name))["status"]
    status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    await scene.kube.replace_status(NODES, name, status)


async def at_work(scene: Scene) -> set[str]:
    tasks = [parse_task(body) for body in await scene.kube.list(TASKS)]
    return {task.name for task in tasks if task.open and not task.reported.phase.terminal}


@pytest.mark.parametrize("marks", [True, False], ids=["as it is", "the control: nothing is marked"])
async def test_a_late_start_takes_no_slot_that_another_node_has_got(marks: bool) -> None:
    scene = Scene()
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(nodes={"names": ["node-0", "node-1"]})
    late, start = await held_back(scene, StartTask)
    successor: Any = {"term": FixedTerm("2-b")} if marks else {}
    scene.operator = Passes(scene.kube, AGENTS, **successor)
    await set_ready(scene, "node-0", ready=False)  # it is turned back, and its slot is free
    while await at_work(scene) != {"node-1"}:
        await scene.step()
    assert (await late.carry_out(start) is None) is marks
    assert await at_work(scene) == ({"node-1"} if marks else {"node-0", "node-1"}), "the budget is one node"


@pytest.mark.parametrize("back", [False, True], ids=["and does not come back", "and has registered anew"])
async def test_a_late_start_is_void_too_where_the_node_is_gone(back: bool) -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    late, start = await held_back(scene, StartTask)
    await scene.kube.delete(NODES, "node-0")
    if back:
        await scene.fleet.add_node("node-0")
    scene.operator = Passes(scene.kube, AGENTS, term=FixedTerm("2-b"))
    mark, free = advance(await scene.operator.gather("to-1-33"), NodeName("node-0"), scene.now)
    assert isinstance(free, FreeSlot)
    assert await late.carry_out(mark) is not None
    assert await late.carry_out(start) is None


async def test_a_late_admission_is_void_once_another_one_leads() -> None:
    scene = Scene()
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply()
    late, admission = await held_back(scene, WriteStatus)
    scene.operator = Passes(scene.kube, AGENTS, term=FixedTerm("2-b"))
    await scene.step()
    before = await scene.upgrade()
    assert before.status.leader == "2-b"
    with pytest.raises(ConflictError):
        await late.carry_out(admission)
    assert await scene.upgrade() == before


async def test_marks_are_written_once_in_a_term() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    term = FixedTerm("1-a")
    scene.operator = Passes(scene.kube, AGENTS, term=term)
    await scene.finish()
    quiet = scene.kube._revision
    term.epoch = "2-b"
    await scene.operator.reconcile("to-1-33")
    assert scene.kube._revision == quiet, "what is over is nobody's"
    assert (await scene.upgrade()).status.leader == "1-a"


@dataclass
class Refusing(InMemoryKube):
    """An API server with a webhook that refuses writes of the tasks it is told."""

    refused: set[str] = field(default_factory=set)

    async def merge(self, resource: Resource, name: str, *args: Any, **more: Any) -> Json:
        if resource == TASKS and name in self.refused:
            raise RejectedError("admission webhook denied the request")
        return await super().merge(resource, name, *args, **more)


async def test_a_slot_is_kept_until_the_task_can_be_marked() -> None:
    scene = Scene(kube_type=Refusing)
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(nodes={"names": ["node-0", "node-1"]})
    await held_back(scene, StartTask)
    kube = scene.kube
    assert isinstance(kube, Refusing)
    kube.refused = {"node-0"}
    scene.operator = Passes(kube, AGENTS, term=FixedTerm("2-b"))
    await set_ready(scene, "node-0", ready=False)
    for _ in range(10):
        await scene.step()
    assert await scene.in_flight() == ("node-0",), "a former leader may still start it"
    kube.refused = set()
    while await scene.in_flight() != ("node-1",):
        await scene.step()
    assert parse_task(await kube.get(TASKS, "node-0")).epoch == "2-b"


@pytest.mark.parametrize("mark", ["2-b", "1-b"], ids=["of a later term", "of the same term, by another"])
async def test_whoever_meets_the_mark_of_another_leader_writes_nothing_and_wants_a_later_term(mark: str) -> None:
    scene, term = Scene(), FixedTerm("1-a")
    await scene.fleet.add_node("node-0")
    await scene.apply()
    scene.operator = Passes(scene.kube, AGENTS, term=term)
    await scene.step()
    status = (await scene.kube.get(UPGRADES, "to-1-33"))["status"]
    await scene.kube.replace_status(UPGRADES, "to-1-33", {**status, "leader": mark})
    quiet = scene.kube._revision
    with pytest.raises(NotLeadingError):
        await scene.operator.reconcile("to-1-33")
    assert (scene.kube._revision, term.surpassed) == (quiet, term_of(mark))
