"""What happens to a node is recorded once, with the slot, the task and the holder; nothing is worked out anew."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, InvalidError, Resource
from nodeupgrade.fleet.actions import Admit, Claim, Cordon, FreeSlot, NodeAction, RestoreCordon
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.controllers import rollout_controller
from nodeupgrade.fleet.cordons.cordons import cordon_patch
from nodeupgrade.fleet.decide.planner import Plan, plan
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import Part
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, Scene
from tests.scenario.rollout.terms import FixedTerm

NAME = "to-1-33"
HOLD = {"metadata": {"annotations": {"nodeupgrade.dev/hold": "backup"}}}
NO_KEY = {"effect": "NoSchedule"}
NO_EXECUTE = {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}]}}


async def stage(*names: str, parts: dict[str, Part] | None = None, pods: bool = True) -> Scene:
    scene = Scene(parts=parts or {})
    for name in names:
        await scene.fleet.add_node(name)
        if pods:
            await scene.fleet.add_pod(f"web-{name}", name)
    return scene


async def until_in_flight(scene: Scene, node: str = "node-0", name: str = NAME) -> None:
    while node not in await scene.in_flight(name):
        await scene.look(name)


async def until_reported(scene: Scene, phase: str, name: str = NAME) -> None:
    for _ in range(40):
        if any(task.get("status", {}).get("phase") == phase for task in await scene.kube.list(TASKS)):
            return
        await scene.look(name)
        await scene.fleet.tick()
    pytest.fail(f"no task reports {phase}")


async def looks(scene: Scene, number: int, *names: str) -> list[NodeAction]:
    """Look again and again, a second each."""
    actions = list[NodeAction]()
    for _ in range(number):
        for name in names or (NAME,):
            actions += await scene.look(name)
        await scene.fleet.tick()
        scene.now += scene.idle_time
    return actions


def of_kind(actions: Iterable[NodeAction], *kinds: type[NodeAction]) -> list[NodeAction]:
    return [action for action in actions if isinstance(action, kinds)]


async def test_a_slot_is_a_record() -> None:
    scene = await stage("node-0")
    await scene.apply(waves=[{"name": "first", "size": 1}])
    await until_in_flight(scene)
    (slot,) = (await scene.upgrade()).status.in_flight
    node = await scene.node("node-0")
    assert (slot.uid, slot.wave, slot.since) == (node["metadata"]["uid"], "first", scene.now)
    await looks(scene, 3)
    task = await scene.kube.get(TASKS, "node-0")
    assert task["spec"]["runID"] == slot.run


@pytest.mark.parametrize("how", ["a taint", "a hold"])
async def test_what_pods_object_to_after_the_admission_turns_a_node_back_once(how: str) -> None:
    """H2: it was cordoned, its pods were read, it was uncordoned, without end."""
    scene = await stage("node-0")
    await scene.apply()
    await until_in_flight(scene)
    if how == "a taint":
        await scene.kube.merge(NODES, "node-0", NO_EXECUTE)
    else:
        await scene.kube.merge(PODS.within("default"), "web-node-0", HOLD)
    actions = await looks(scene, 20)
    assert of_kind(actions, Cordon, RestoreCordon) == []
    assert len(of_kind(actions, FreeSlot)) == 1
    assert await scene.in_flight() == ()


async def test_an_objection_after_the_cordon_undoes_it_and_frees_the_slot_at_once() -> None:
    scene = await stage("node-0")
    await scene.apply()
    await until_in_flight(scene)
    while not (await scene.node("node-0"))["spec"].get("unschedulable"):
        await scene.look(NAME)
    await scene.kube.merge(NODES, "node-0", NO_EXECUTE)
    actions = await looks(scene, 20)
    assert [type(action) for action in of_kind(actions, Cordon, RestoreCordon, FreeSlot)] == [RestoreCordon, FreeSlot]


async def abandon(scene: Scene) -> None:
    """Delete the NodeUpgrade while nodes are in flight."""
    await scene.kube.delete(UPGRADES, NAME)
    uid = (await scene.upgrade()).uid
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/abandon": uid}}})
    await scene.look(NAME)
    assert await scene.kube.list(UPGRADES) == []
    await scene.kube.collect_garbage()


async def test_a_node_whose_slot_was_freed_is_admitted_by_the_next_plan() -> None:
    scene = await stage("node-0")
    await scene.apply()
    await until_in_flight(scene)
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Pause"}})
    while await scene.in_flight():
        await scene.look(NAME)
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Run"}})

    assert of_kind(await scene.look(NAME), Admit)


async def test_a_run_that_ends_after_its_rollout_was_abandoned_holds_nothing_up() -> None:
    """H3: the later rollout admitted and freed the node for ever."""
    scene = await stage("node-0", "node-1")
    await scene.apply()
    await until_reported(scene, "Running")
    await abandon(scene)
    for _ in range(5):
        await scene.fleet.tick()
    await scene.operator.sweep()
    await scene.apply()
    await scene.finish()
    status = (await scene.upgrade()).status
    assert (status.phase, status.counts.total, status.skips) == ("Succeeded", 2, {"AlreadyAtTarget": 1})


async def test_what_was_abandoned_before_an_agent_was_made_is_released() -> None:
    """H3: nobody made one, and the later rollout was queued behind a NodeUpgrade that is gone."""
    scene = await stage("node-0")
    await scene.apply()
    while not [task for task in await scene.kube.list(TASKS) if task["spec"]["action"] == "Upgrade"]:
        await scene.look(NAME)
    assert await scene.kube.list(PODS.within(NAMESPACE)) == []
    await abandon(scene)
    for _ in range(2):
        await scene.operator.sweep()
    assert CORDON_ANNOTATION not in ((await scene.node("node-0"))["metadata"].get("annotations") or {})
    await scene.apply()
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


@pytest.mark.parametrize("number", [3, 17], ids=["a few", "more than the schema allows"])
async def test_hazards_that_nobody_accepted_are_not_counted(number: int) -> None:
    """H4: seventeen invented names made the whole status invalid, and every write of it was refused."""
    scene = await stage("node-0", "node-1")
    await scene.apply()
    await until_reported(scene, "Running")
    task = await scene.kube.get(TASKS, "node-0")
    hazards = [{"check": f"invented-{n}", "reason": "PodInTransition", "accepted": True} for n in range(number)]
    await scene.kube.replace_status(TASKS, "node-0", {**task["status"], "hazards": hazards})
    await scene.finish()
    status = (await scene.upgrade()).status
    assert (status.phase, status.accepted) == ("Succeeded", None)


@dataclass
class Stricter(InMemoryKube):
    """An API server that takes no status with skipped nodes: as if it were invalid."""

    refused: list[str] = field(default_factory=list)

    def _check(self, resource: Resource, body: Json) -> None:
        super()._check(resource, body)
        if resource == UPGRADES and body.get("status", {}).get("skips"):
            self.refused.append(body["metadata"]["name"])
            raise InvalidError("status.skips is invalid")


async def test_slots_are_written_even_if_the_rest_of_the_status_is_invalid() -> None:
    scene = Scene(kube_type=Stricter)
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_node("node-1", version="v1.33.13")
    await scene.apply()
    for _ in range(40):
        await scene.step()
    assert isinstance(scene.kube, Stricter)
    assert scene.kube.refused
    assert await scene.in_flight() == ()
    assert (await scene.node("node-0"))["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.13"


async def moved(part: Part) -> Scene:
    """A node of the pool web, whose rollout is at work on it, moves to the pool db, whose rollout has long begun."""
    scene = await stage("node-0", "node-1", parts={"node-0": part, "node-2": Part.HANG})
    await scene.fleet.add_node("node-2", overrides={"metadata": {"labels": {"pool": "db"}}})
    pool = {"selector": {"matchLabels": {"pool": "db"}}, "membership": "Continuous"}
    await scene.apply("db", nodes=pool, strategy={"maxConcurrent": 2})
    await until_in_flight(scene, "node-2", "db")
    await scene.apply("web")
    return scene


async def test_a_slot_of_another_rollout_holds_its_node_even_without_a_task() -> None:
    """M1: a Node that registered anew in mid-run was claimed and started by another rollout."""
    scene = await moved(Part.SUCCEED)
    await until_reported(scene, "Running", "web")
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.collect_garbage()
    await scene.fleet.add_node("node-0", overrides={"metadata": {"labels": {"pool": "db"}}})
    assert await scene.in_flight("web") == ("node-0",)
    assert [
        each for each in of_kind(await looks(scene, 3, "db"), Claim, Admit) if getattr(each, "node", "") == "node-0"
    ] == []
    assert {each.reason for each in (await scene.upgrade("db")).status.failures} == {Reason.OVERLAP_CONFLICT.value}
    for _ in range(60):
        await looks(scene, 1, "db", "web")
        holders = [name for name in ("db", "web") if "node-0" in await scene.in_flight(name)]
        assert len(holders) <= 1, "one node has two holders"


async def test_the_cordon_of_another_rollout_is_a_conflict_and_no_reason_to_skip() -> None:
    """M1: the node could not be rolled back, so its rollout, which has not ended, keeps it cordoned."""
    scene = await moved(Part.FAIL_TO_ROLL_BACK)
    await until_reported(scene, "RollbackFailed", "web")
    await looks(scene, 6, "web")
    assert await scene.in_flight("web") == ()
    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.merge(NODES, "node-0", {"metadata": {"labels": {"pool": "db"}}})
    await looks(scene, 2, "db")
    status = (await scene.upgrade("db")).status
    assert not status.skips
    assert [(each.node, each.reason) for each in status.failures] == [("node-0", Reason.OVERLAP_CONFLICT.value)]


async def test_a_claim_that_was_given_back_is_free() -> None:
    """M2: each of two rollouts waited for the other, after the older one was retried."""
    scene = await stage("node-0", parts={"node-0": Part.ROLL_BACK})
    await scene.apply("older")
    await scene.finish("older")
    assert (await scene.upgrade("older")).status.phase == "Failed"
    scene.now += scene.idle_time
    await scene.fleet.add_node("node-1")
    await scene.apply("younger")
    await scene.look("younger")
    while not any(task["spec"]["upgradeRef"]["name"] == "younger" for task in await scene.kube.list(TASKS)):
        await scene.look("younger")
    scene.parts["node-0"] = Part.SUCCEED
    await scene.kube.merge(UPGRADES, "older", {"metadata": {"annotations": {"nodeupgrade.dev/retry": "again"}}})
    await looks(scene, 120, "older", "younger")
    phases = [(await scene.upgrade(name)).status.phase for name in ("older", "younger")]
    assert phases == ["Succeeded", "Succeeded"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"action": "Pause"}},
        {"metadata": {"annotations": {"nodeupgrade.dev/pause": "true"}}},
        {"spec": {"nodes": {"exclude": {"names": ["node-0"]}}}},
        {"spec": {"blackouts": [{"from": "2025-12-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}]}},
        {"spec": {"windows": [{"days": ["Sun"], "start": "03:00", "duration": "1h"}]}},
    ],
    ids=["paused", "paused by annotation", "excluded", "blackout", "window"],
)
async def test_a_gate_is_asked_again_before_anything_is_touched(change: Json) -> None:
    """M3: what was admitted before an outage of hours started whatever had changed meanwhile."""
    scene = await stage("node-0")
    await scene.apply()
    await until_in_flight(scene)
    await scene.kube.merge(UPGRADES, NAME, change)
    actions = await looks(scene, 5)
    assert of_kind(actions, Cordon) == []
    assert await scene.in_flight() == ()


async def test_a_version_that_is_too_long_is_refused_by_name() -> None:
    """M4: its claim was invalid, and nothing started."""
    scene = await stage("node-0", "node-1")
    node = await scene.kube.get(NODES, "node-0")
    node["status"]["nodeInfo"]["kubeletVersion"] = f"v1.30.14+{'x' * 80}"
    await scene.kube.replace_status(NODES, "node-0", node["status"])
    await scene.apply()
    await scene.finish()
    status = (await scene.upgrade()).status
    assert status.counts.succeeded == 1
    assert [(each.node, each.reason) for each in status.failures] == [("node-0", "UnsupportedVersion")]
    assert status.phase == "Stalled"


@dataclass
class Counting(InMemoryKube):
    """An API server that counts how often pods are listed."""

    listed: int = 0

    async def list(self, resource: Resource, **more: Any) -> list[Json]:
        self.listed += resource.plural == "pods" and "spec.nodeName" in (more.get("fields") or {})
        return await InMemoryKube.list(self, resource, **more)


async def test_pods_that_object_are_read_together_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: each plan read the pods of one node after the other, and each look began anew."""
    scene, planned = Scene(kube_type=Counting), list[datetime]()

    def counted(fleet: FleetSnapshot, now: datetime, seen: RolloutView | None) -> Plan:
        planned.append(now)
        return plan(fleet, now, seen)

    monkeypatch.setattr(rollout_controller, "plan", counted)
    for number in range(40):
        await scene.fleet.add_node(f"node-{number}", overrides=NO_EXECUTE)
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.apply()
    kube = scene.kube
    assert isinstance(kube, Counting)
    for _ in range(4):
        await scene.look(NAME)
    assert (kube.listed, len(planned)) == (40, 6), "one node first, and then all others"
    for _ in range(10):
        await scene.look(NAME)
    assert kube.listed == 40
    assert len((await scene.upgrade()).status.failures) == 20


async def test_a_node_that_cannot_be_read_is_a_member() -> None:
    """M7: the rollout succeeded without it."""
    scene = await stage("node-0", "node-1")
    body = scene.kube._objects["nodes", None, "node-1"]
    scene.kube._store(("nodes", None, "node-1"), {**body, "spec": {"taints": [NO_KEY]}}, "x")
    await scene.apply()
    await looks(scene, 30)
    status = (await scene.upgrade()).status
    assert status.phase == "Stalled"
    assert [(each.node, each.reason) for each in status.failures] == [("node-1", "ObjectUnreadable")]


async def test_a_node_in_flight_that_cannot_be_read_is_reported() -> None:
    scene = await stage("node-0")
    await scene.apply()
    await until_reported(scene, "Running")
    body = scene.kube._objects["nodeupgradetasks", None, "node-0"]
    scene.kube.schemas = False
    scene.kube._store(("nodeupgradetasks", None, "node-0"), {**body, "spec": {**body["spec"], "action": "Newer"}}, "x")
    for _ in range(3):
        await scene.look(NAME)
    impeded = next(each for each in (await scene.upgrade()).status.conditions if each.type == "Impeded")
    assert (impeded.status, impeded.reason) == ("True", "ObjectUnreadable")


async def test_silence_ends() -> None:
    """A node that is held, and forgotten, is not waited for without a word."""
    scene = await stage("node-0", "node-1")
    await scene.kube.merge(NODES, "node-1", HOLD)
    await scene.apply(timeouts={"noProgress": "1h"})
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Pending"
    scene.now += timedelta(hours=1)
    await looks(scene, 2)
    upgrade = await scene.upgrade()
    stalled = next(each for each in upgrade.status.conditions if each.type == "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "NoProgress")
    assert "node-1 is held" in stalled.message
    await scene.kube.merge(NODES, "node-1", {"metadata": {"annotations": {"nodeupgrade.dev/hold": None}}})
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


@pytest.mark.parametrize("wait", ["paused", "soaking"])
async def test_what_was_asked_for_is_no_silence(wait: str) -> None:
    scene = await stage("node-0", "node-1")
    await scene.apply(timeouts={"noProgress": "1h"}, waves=[{"name": "first", "size": 1, "soak": "9h"}])
    while (await scene.upgrade()).status.phase != "Soaking":
        await scene.step()
    if wait == "paused":
        await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Pause"}})
    for _ in range(4):
        scene.now += timedelta(hours=2)
        await looks(scene, 2)
        assert not (await scene.upgrade()).status.holds(ConditionType.STALLED)
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Run"}})
    scene.now += timedelta(hours=2)
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_the_budget_of_the_cluster_holds_over_all_rollouts() -> None:
    """L5: each rollout had its own budget, and ten of them had ten."""
    scene = await stage(*(f"{pool}-{number}" for pool in "abc" for number in range(3)))
    for pool in "abc":
        await scene.apply(pool, nodes={"names": [f"{pool}-{number}" for number in range(3)]})
    scene.operator.snapshots.cluster_budget = ClusterBudget(max_in_flight=IntOrPercent(2))
    highest = 0
    for _ in range(150):
        for pool in "abc":
            await scene.look(pool)
            slots = [len(await scene.in_flight(each)) for each in "abc"]
            highest = max(highest, sum(slots))
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    assert highest == 2
    assert [(await scene.upgrade(pool)).status.phase for pool in "abc"] == ["Succeeded"] * 3


async def test_a_rollout_that_has_ended_looks_after_a_task_that_is_open() -> None:
    """A slot was freed that was needed, as by an operator that knows what happened before a backup was restored."""
    scene = await stage("node-0")
    await scene.apply()
    await scene.finish()
    assert await scene.operator.unfinished() == ()
    await scene.kube.merge(TASKS, "node-0", {"spec": {"action": "Upgrade", "verdict": None}})
    await scene.kube.merge(NODES, "node-0", cordon_patch(await scene.upgrade()))
    for _ in range(10):
        for name in await scene.operator.unfinished():
            await scene.look(name)
    node, status = await scene.node("node-0"), (await scene.upgrade()).status
    assert not node["spec"].get("unschedulable")
    assert (status.phase, status.in_flight) == ("Succeeded", ())
    assert await scene.operator.unfinished() == ()


async def test_a_retry_clears_the_failure_of_a_node_that_was_replaced_at_the_target() -> None:
    """Nothing claims the new Node, which runs the target; the task of the old one goes with its failure."""
    scene = await stage("node-0", parts={"node-0": Part.ROLL_BACK})
    await scene.apply()
    await scene.finish()
    await scene.kube.delete(NODES, "node-0")
    await scene.fleet.add_node("node-0", version="v1.33.13")
    await looks(scene, 3)
    assert (await scene.upgrade()).status.phase == "Failed"
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/retry": "seen"}}})
    await looks(scene, 4)
    status = (await scene.upgrade()).status
    assert (status.phase, status.failures, status.counts.total) == ("Succeeded", (), 1)


async def test_the_task_of_a_node_keeps_the_failure_of_an_earlier_node_of_its_name() -> None:
    """By UID, whatever the status still lists: it has room for twenty."""
    scene = await stage("node-0", "node-1", parts={"node-0": Part.ROLL_BACK, "node-1": Part.HANG})
    await scene.apply(strategy={"failureThreshold": 5})
    while await scene.in_flight() != ("node-1",):
        await scene.step()
    await scene.kube.delete(NODES, "node-0")
    await scene.fleet.add_node("node-0")
    await looks(scene, 3)
    task = await scene.kube.get(TASKS, "node-0")
    assert (task["spec"]["action"], len(task["spec"]["history"])) == ("Wait", 1)
    upgrade = await scene.kube.get(UPGRADES, NAME)
    await scene.kube.replace_status(UPGRADES, NAME, {**upgrade["status"], "failures": []})
    await looks(scene, 1)
    status = (await scene.upgrade()).status
    assert [(each.node, each.outcome) for each in status.failures] == [("node-0", Verdict.ROLLED_BACK)]
    assert status.counts.rolled_back == 1


async def test_no_annotation_of_a_nodeupgrade_moves_a_leader() -> None:
    """H5: authors of NodeUpgrades could write the mark of a term far ahead, which stopped all rollouts for good."""
    scene = await stage("node-0")
    await scene.apply()
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/epoch": "1999999999-x"}}})
    agents = scene.operator.snapshots.agents
    scene.operator = Passes(scene.kube, agents, term=FixedTerm("3-leader"))
    await scene.finish()
    status = (await scene.upgrade()).status
    assert (status.phase, status.leader) == ("Succeeded", "3-leader")


@pytest.mark.parametrize("phase", ["", "Staging"])
async def test_a_node_that_is_deleted_before_anything_was_handed_over_is_not_lost(phase: str) -> None:
    """Its task was deleted first, and then its slot looked like one whose run may continue."""
    scene = await stage("node-0", "node-1")
    await scene.apply()
    if phase:
        await until_reported(scene, phase)
    else:
        await until_in_flight(scene)
        await looks(scene, 3)
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.collect_garbage()
    await looks(scene, 6)
    status = (await scene.upgrade()).status
    assert ("node-0" in status.flying, status.failures) == (False, ())
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_what_impedes_is_what_is_in_flight() -> None:
    """L4: while a node acted without ever waiting, the condition named another one, whose slot was free."""
    scene = await stage("node-0")
    await scene.apply()
    await until_in_flight(scene)
    upgrade = await scene.kube.get(UPGRADES, NAME)
    left = {"type": "Impeded", "status": "True", "reason": "AgentUnavailable", "message": "agent pod of node-9"}
    ready = upgrade["status"]["conditions"][0]
    upgrade["status"]["conditions"].append({**ready, **left})
    await scene.kube.replace_status(UPGRADES, NAME, upgrade["status"])
    await scene.look(NAME)
    assert (await scene.upgrade()).status.fails(ConditionType.IMPEDED)
    assert await scene.kube.list(PODS.within(NAMESPACE)) == [], "it has not waited for its agent yet"


@pytest.mark.parametrize("how", ["its agent is lost", "it was just taken up"])
async def test_a_run_that_nobody_looks_after_is_named_and_is_over_once_somebody_says_so(how: str) -> None:
    """H3: its agent and its rollout are gone, so only a person can tell whether it goes on."""
    scene = await stage("node-0", parts={"node-0": Part.HANG})
    await scene.apply()
    await until_reported(scene, "Running")
    if how == "it was just taken up":
        await scene.kube.delete(TASKS, "node-0")
        while not [task for task in await scene.kube.list(TASKS) if task["spec"].get("resumes")]:
            await scene.look(NAME)
    await abandon(scene)
    for pod in await scene.kube.list(PODS.within(NAMESPACE)):
        await scene.kube.delete(PODS.within(NAMESPACE), pod["metadata"]["name"])
    await scene.apply("later", timeouts={"noProgress": "1h"})
    await looks(scene, 3, "later")
    await scene.operator.sweep()
    status = (await scene.upgrade("later")).status
    ready = next(each for each in status.conditions if each.type == "Ready")
    assert status.phase == "Queued"
    assert "uncordon it, or delete its NodeUpgradeTask" in ready.message
    scene.now += timedelta(hours=2)
    await looks(scene, 2, "later")
    stalled = next(each for each in (await scene.upgrade("later")).status.conditions if each.type == "Stalled")
    assert (stalled.status, stalled.reason) == ("True", "NoProgress")
    await scene.kube.merge(NODES, "node-0", {"spec": {"unschedulable": None}}, field_manager="kubectl")
    scene.parts["node-0"] = Part.SUCCEED
    await scene.operator.sweep()
    await scene.finish("later")
    assert (await scene.upgrade("later")).status.phase == "Succeeded"


async def test_a_soak_is_not_forgotten_with_the_nodes_of_its_wave() -> None:
    """A canary that succeeded and was then deleted took the soak with it, and production started."""
    scene = await stage("node-0", "node-1")
    await scene.kube.merge(NODES, "node-0", {"metadata": {"labels": {"tier": "canary"}}})
    canary = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "soak": "9h"}
    await scene.apply(waves=[canary])
    while (await scene.upgrade()).status.phase != "Soaking":
        await scene.step()
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.delete(TASKS, "node-0")
    assert of_kind(await looks(scene, 5), Admit) == []
    assert (await scene.upgrade()).status.phase == "Soaking"


@pytest.mark.parametrize("soaks", [True, False], ids=["deleted in the soak", "deleted before it"])
async def test_a_soak_outlives_the_only_node_with_a_verdict(soaks: bool) -> None:
    """The wave ran again for a moment, for a node that was refused, and forgot when its last verdict was."""
    scene = await stage("node-0", "node-1", "node-2")
    for name in ("node-0", "node-1"):
        await scene.kube.merge(NODES, name, {"metadata": {"labels": {"tier": "canary"}}})
    canary = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "soak": "9h"}
    waves = [canary, {"name": "production", "size": "100%", "approval": "Manual"}]
    await scene.apply(waves=waves, approvedWaves=["production"], strategy={"maxConcurrent": 1})
    while (await scene.upgrade()).status.counts.succeeded == 0:
        await scene.step()
    await scene.kube.merge(NODES, "node-1", NO_EXECUTE)
    while soaks and (await scene.upgrade()).status.phase != "Soaking":
        await scene.step()
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.delete(TASKS, "node-0")
    scene.now += timedelta(minutes=5)  # what pods object to is kept for a minute
    await looks(scene, 9)
    assert await scene.in_flight() == ()
    assert (await scene.upgrade()).status.phase == "Soaking"


async def test_a_canary_that_failed_and_is_in_the_next_wave_now_does_not_open_that() -> None:
    """It registered anew without its label, and somebody deleted its task: production began without its approval."""
    scene = await stage("node-0", "node-1", "node-2", parts={"node-0": Part.ROLL_BACK})
    for name in ("node-0", "node-1"):
        await scene.kube.merge(NODES, name, {"metadata": {"labels": {"tier": "canary"}}})
    canary = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}
    waves = [canary, {"name": "production", "size": "100%", "approval": "Manual"}]
    await scene.apply(waves=waves, strategy={"maxConcurrent": 1, "failureThreshold": 3})
    while (await scene.upgrade()).status.phase != "AwaitingApproval":
        await scene.step()
    await scene.kube.merge(NODES, "node-0", {"metadata": {"labels": {"tier": None}}})
    await scene.kube.delete(TASKS, "node-0")
    await looks(scene, 9)
    assert await scene.in_flight() == ()
    assert (await scene.upgrade()).status.phase == "AwaitingApproval"


@pytest.mark.parametrize("what", ["its Node", "its task", "both"])
@pytest.mark.parametrize("again", [False, True], ids=["", "and comes back"])
async def test_a_soak_outlives_what_is_deleted_before_a_slot_is_free(what: str, again: bool) -> None:
    """The wave was over without any verdict, and the next one began at once. What replaces a Node proves nothing."""
    scene = await stage("node-0", "node-1")
    await scene.kube.merge(NODES, "node-0", {"metadata": {"labels": {"tier": "canary"}}})
    canary = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "soak": "9h"}
    await scene.apply(waves=[canary, {"name": "production", "size": "100%"}], approvedWaves=["production"])
    while not [task for task in await scene.kube.list(TASKS) if task["spec"].get("verdict")]:
        await scene.step()
    while not isinstance(scene.operator.snapshots.memory(NAME).waiting.get(NodeName("node-0")), FreeSlot):
        scene.operator.renew(NAME)
        await scene.operator.nodes.reconcile(NAME, NodeName("node-0"))
    assert (await scene.upgrade()).status.in_flight
    if what != "its Node":
        await scene.kube.delete(TASKS, "node-0")
    if what != "its task":
        await scene.kube.delete(NODES, "node-0")
    if again and what != "its task":
        labels = {"metadata": {"labels": {"tier": "canary"}}}
        await scene.fleet.add_node("node-0", version="v1.33.13", overrides=labels)

    assert of_kind(await looks(scene, 9), Admit) == []
    status = (await scene.upgrade()).status
    assert (status.phase, status.in_flight) == ("Soaking", ())


async def test_a_node_that_registers_again_as_it_is_given_up_keeps_its_slot() -> None:
    """Its slot was freed by what was decided before, and its run went on without one."""
    scene = await stage("node-0", parts={"node-0": Part.HANG})
    await scene.apply(timeouts={"node": "1m"})
    await until_reported(scene, "Running")
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.delete(TASKS, "node-0")
    await looks(scene, 2)
    scene.now += timedelta(hours=1)
    for _ in range(3):
        scene.operator.renew(NAME)
        await scene.operator.nodes.reconcile(NAME, NodeName("node-0"))
    assert isinstance(scene.operator.snapshots.memory(NAME).waiting[NodeName("node-0")], FreeSlot)
    await scene.fleet.add_node("node-0")
    scene.operator.renew(NAME)
    await scene.operator.rollouts.reconcile(NAME)
    status = (await scene.upgrade()).status
    assert (status.flying, status.failures) == (("node-0",), ())
