"""Cordons that a NodeUpgrade left behind: restored once its run is over, and not a moment before."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.inputs.live_fleet import LiveFleet
from nodeupgrade.cluster.kube_api import EVENTS, NODES, PODS, TASKS, UPGRADES, RejectedError, Resource, UnavailableError
from nodeupgrade.fleet.actions import RestoreCordon
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, agent_pod
from nodeupgrade.fleet.controllers.leftover_tasks import clean_leftover_tasks
from nodeupgrade.fleet.controllers.sweep import Sweep
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene

NAME = "to-1-33"


async def stage(part: Part) -> Scene:
    scene = Scene(parts={"node-0": part})
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("web-0", "node-0")
    await scene.apply()
    while not await reports(scene, "Running"):
        await scene.step()
    return scene


async def reports(scene: Scene, phase: str) -> bool:
    return any(task.get("status", {}).get("phase") == phase for task in await scene.kube.list(TASKS))


async def leave(scene: Scene, how: str) -> None:
    """Let the NodeUpgrade go without its having finished the node."""
    await scene.kube.delete(UPGRADES, NAME)
    if how == "abandoned":
        uid = (await scene.upgrade()).uid
        patch = {"metadata": {"annotations": {"nodeupgrade.dev/abandon": uid}}}
        await scene.kube.merge(UPGRADES, NAME, patch)
        await scene.operator.reconcile(NAME)
    else:
        await scene.kube.merge(UPGRADES, NAME, {"metadata": {"finalizers": None}})
    assert await scene.kube.list(UPGRADES) == []


async def swept(scene: Scene, looks: int = 6) -> bool:
    """Let node sides go on and the operator look; whether it uncordoned the node."""
    done = False
    for _ in range(looks):
        done |= any(isinstance(each, RestoreCordon) for each in await scene.operator.sweep())
        await scene.fleet.tick()
    return done


async def cordoned(scene: Scene) -> bool:
    node = await scene.node("node-0")
    ours = CORDON_ANNOTATION in (node["metadata"].get("annotations") or {})
    assert ours or not node["spec"].get("unschedulable")
    return bool(node["spec"].get("unschedulable"))


async def warnings(scene: Scene) -> list[tuple[str, int]]:
    found = await scene.kube.list(EVENTS.within("default"))
    return [(e["message"], e["count"]) for e in found if e["reason"] == "CordonLeftBehind"]


@pytest.mark.parametrize("how", ["abandoned", "finalizer removed"])
async def test_it_is_restored_when_the_run_is_over_and_not_before(how: str) -> None:
    scene = await stage(Part.HANG)
    await leave(scene, how)
    assert not await swept(scene)
    assert await cordoned(scene)
    ((message, count),) = await warnings(scene)
    assert (count, "agent pod nodeupgrade-agent-node-0 is at work" in message) == (1, True)
    scene.parts["node-0"] = Part.ROLL_BACK
    assert await swept(scene)
    assert not await cordoned(scene)
    assert await scene.kube.list(PODS.within(NAMESPACE)) == []
    assert ("Node", "Uncordoned", 1) in await scene.events()


async def test_a_silent_run_without_an_agent_is_not_over() -> None:
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    assert not await swept(scene)
    assert "its run is not over (Running)" in (await warnings(scene))[0][0]


async def test_a_node_that_could_not_be_rolled_back_stays_cordoned() -> None:
    scene = await stage(Part.FAIL_TO_ROLL_BACK)
    await leave(scene, "abandoned")
    assert not await swept(scene)
    assert await cordoned(scene)


async def test_where_nobody_can_tell_it_stays_and_people_are_told_once() -> None:
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    assert not await swept(scene)
    assert await cordoned(scene)
    ((message, count),) = await warnings(scene)
    assert count == 1
    assert message.endswith("make sure that no process or unit of nodeupgrade runs on the node, then uncordon it.")


async def test_the_claim_of_another_rollout_says_nothing_about_the_run() -> None:
    """Its task was deleted, the next rollout claimed the node, and the node was uncordoned while its run went on."""
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    await scene.apply("later")
    while not await scene.kube.list(TASKS):
        await scene.operator.reconcile("later")
    assert not await swept(scene)
    assert await cordoned(scene)


@pytest.mark.parametrize("policy", ["Skip", "Include"])
async def test_a_node_is_not_touched_while_only_its_cordon_shows_a_run(policy: str) -> None:
    """With `cordoned: Include`, a rollout whose agent could not start refused the node, and gave its slot away."""
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    scene.parts["node-0"] = Part.CANNOT_PULL
    await scene.apply("later", nodes={"names": ["node-0"], "cordoned": policy})
    await scene.finish("later")
    status = (await scene.upgrade("later")).status
    assert [(each.node, each.reason, each.outcome) for each in status.failures] == [
        ("node-0", "CordonLeftBehind", None)
    ]
    assert (await scene.kube.get_task("node-0")).spec.action is TaskAction.WAIT
    assert await cordoned(scene)
    await by_hand(scene, cordoned=False)
    scene.parts["node-0"] = Part.SUCCEED
    await scene.finish("later")
    assert (await scene.upgrade("later")).status.phase == "Succeeded"


async def test_a_node_is_claimed_once_the_cordon_of_a_run_that_is_over_is_gone() -> None:
    scene = await stage(Part.SUCCEED)
    while not await reports(scene, "Succeeded"):
        await scene.fleet.tick()
    await leave(scene, "abandoned")
    await scene.apply("later")
    for _ in range(9):
        await scene.operator.reconcile("later")
    assert (await scene.kube.get(TASKS, "node-0"))["spec"]["upgradeRef"]["name"] == NAME
    assert await swept(scene)
    await scene.finish("later")
    assert (await scene.upgrade("later")).status.phase == "Succeeded"


async def test_nobody_elses_cordon_is_touched() -> None:
    """Not one without our annotation, and not one whose owner is there, whatever its run has come to."""
    scene = await stage(Part.SUCCEED)
    while not await reports(scene, "Succeeded"):
        await scene.fleet.tick()
    assert not await swept(scene)
    assert await cordoned(scene)
    await leave(scene, "finalizer removed")
    await scene.kube.merge(NODES, "node-0", {"metadata": {"annotations": {CORDON_ANNOTATION: None}}})
    assert not await swept(scene)
    assert (await scene.node("node-0"))["spec"]["unschedulable"]


@pytest.mark.parametrize("swept_between", [True, False], ids=["swept in between", "at once"])
async def test_a_cordon_that_somebody_makes_after_an_uncordon_is_theirs(swept_between: bool) -> None:
    """`kubectl uncordon` leaves our annotation on the node."""
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await by_hand(scene, cordoned=False)
    if swept_between:
        assert not await swept(scene, looks=1)
        assert CORDON_ANNOTATION not in (await scene.node("node-0"))["metadata"]["annotations"]
    await by_hand(scene, cordoned=True)
    scene.parts["node-0"] = Part.ROLL_BACK
    assert not await swept(scene)
    assert (await scene.node("node-0"))["spec"]["unschedulable"]
    assert CORDON_ANNOTATION not in (await scene.node("node-0"))["metadata"]["annotations"]


async def test_a_cordon_that_somebody_makes_in_mid_flight_stays() -> None:
    scene = await stage(Part.SUCCEED)
    await by_hand(scene, cordoned=False)
    await by_hand(scene, cordoned=True)
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert not await swept(scene)
    assert (await scene.node("node-0"))["spec"]["unschedulable"]


async def test_without_managers_the_annotation_decides() -> None:
    """API servers before 1.18 record none."""
    scene = await stage(Part.ROLL_BACK)
    await leave(scene, "abandoned")
    key = ("nodes", None, "node-0")
    body = scene.kube._objects[key]
    scene.kube._store(key, {**body, "metadata": {**body["metadata"], "managedFields": None}}, "merge")
    assert await swept(scene)


async def by_hand(scene: Scene, *, cordoned: bool) -> None:
    patch = {"spec": {"unschedulable": cordoned or None}}
    await scene.kube.merge(NODES, "node-0", patch, field_manager="kubectl-cordon")


async def test_what_changed_since_it_was_looked_at_is_left_alone() -> None:
    scene = await stage(Part.SUCCEED)
    while not await reports(scene, "Succeeded"):
        await scene.fleet.tick()
    await leave(scene, "abandoned")
    await scene.fleet.tick()
    changed: list[str] = []

    def label(verb: str, name: str) -> None:
        if (verb, name) == ("delete", "nodeupgrade-agent-node-0"):
            key = ("nodes", None, "node-0")
            body = scene.kube._objects[key]
            scene.kube._store(key, {**body, "metadata": {**body["metadata"], "labels": {"pool": "db"}}}, "label")
            changed.append(name)

    scene.kube.before_write = label
    assert not await swept(scene, looks=1)
    assert changed
    assert await cordoned(scene)
    assert await swept(scene)


async def test_a_refused_uncordon_is_told() -> None:
    scene = await stage(Part.SUCCEED)
    while not await reports(scene, "Succeeded"):
        await scene.fleet.tick()
    await leave(scene, "abandoned")

    def deny(verb: str, name: str) -> None:
        if (verb, name) == ("merge", "node-0"):
            raise RejectedError("denied by policy of the house")

    scene.kube.before_write = deny
    assert not await swept(scene)
    assert ("Node", "WriteRefused", 1) in await scene.events()


async def test_what_a_busy_api_server_has_not_recorded_is_told_again() -> None:
    scene = await stage(Part.HANG)
    await leave(scene, "finalizer removed")

    def busy(verb: str, name: str) -> None:
        if verb == "create":
            raise UnavailableError("too busy")

    scene.kube.before_write = busy
    assert not await swept(scene)
    assert await warnings(scene) == []
    scene.kube.before_write = lambda _verb, _name: None
    assert not await swept(scene)
    ((_, count),) = await warnings(scene)
    assert count == 1


async def believed_over(**spec: Any) -> Scene:
    """Somebody uncordons a node whose run goes on, and the next rollout takes it; its agent cannot start there."""
    scene = await stage(Part.HANG)
    await leave(scene, "abandoned")
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    await by_hand(scene, cordoned=False)
    assert not await swept(scene, looks=1)
    scene.parts["node-0"] = Part.CANNOT_PULL
    await scene.add_hook_template("set-noout")
    scene.fleet.hooks["set-noout"] = ("Failed", "BackoffLimitExceeded", "no such flag")
    await scene.apply("later", **spec)
    while (await scene.kube.get_task("node-0")).spec.action is not TaskAction.UPGRADE:
        await scene.step("later")
    return scene


@pytest.mark.parametrize(
    ("spec", "edit"),
    [({}, {}), ({}, {"action": "Abort"}), ({"hooks": {"before": [{"template": "set-noout"}]}}, {})],
    ids=["its agent cannot start", "it is aborted", "its hook fails"],
)
async def test_only_an_agent_can_tell_that_a_run_is_over_that_a_person_believes_over(spec: Json, edit: Json) -> None:
    """The next rollout said that the node was untouched, uncordoned it, and gave its slot to another one."""
    scene = await believed_over(**spec)
    await scene.kube.merge(UPGRADES, "later", {"spec": edit})
    await scene.finish("later")
    assert await scene.in_flight("later") == ("node-0",)
    assert await cordoned(scene)
    impeded = (await scene.upgrade("later")).status.condition(ConditionType.IMPEDED)
    assert "what became of the run on node node-0 is not known" in impeded.message
    scene.parts["node-0"] = Part.ROLL_BACK
    await scene.kube.delete(PODS.within(NAMESPACE), "nodeupgrade-agent-node-0")
    await scene.finish("later")
    assert await scene.in_flight("later") == ()
    assert not await cordoned(scene)


async def test_what_was_last_heard_of_a_run_stays_until_the_next_agent_reports() -> None:
    """Also while claims come and go: nothing else says that the run may go on."""
    scene = await believed_over()
    task = await scene.kube.get_task("node-0")
    assert (task.status.phase, task.status.run_id == task.spec.run_id) == (TaskPhase.RUNNING, False)
    assert not task.untouched
    scene.parts["node-0"] = Part.SUCCEED
    await scene.finish("later")
    assert (await scene.upgrade("later")).status.phase == "Succeeded"


async def waiting_tasks(scene: Scene) -> None:
    """Let a rollout of three nodes come so far that one is upgraded, one is in flight, and one waits for its turn."""
    for name in ("node-0", "node-1", "node-2"):
        await scene.fleet.add_node(name)
    await scene.apply()
    while not await reports(scene, "Succeeded"):
        await scene.step()
    while (await shown(scene))["node-1"] != "Running":
        await scene.step()


async def shown(scene: Scene) -> dict[str, str]:
    """Return what `kubectl get nut` shows as phases."""
    pending = {"phase": "Pending"}  # the CRD's default
    return {task["metadata"]["name"]: task.get("status", pending)["phase"] for task in await scene.kube.list(TASKS)}


async def test_what_never_began_does_not_wait_for_a_rollout_that_is_gone() -> None:
    """`kubectl get nut` listed these tasks as Pending for as long as their Nodes existed."""
    scene = Scene()
    await waiting_tasks(scene)
    assert (await shown(scene))["node-2"] == "Pending"
    await leave(scene, "abandoned")
    await swept(scene)
    assert (await shown(scene)) == {"node-0": "Succeeded", "node-1": "Succeeded"}


@pytest.mark.parametrize("by", ["a claim", "a report"])
async def test_a_task_that_changes_as_it_is_deleted_stays(by: str) -> None:
    scene = Scene()
    await waiting_tasks(scene)
    await leave(scene, "abandoned")
    before: list[str] = []

    def change(verb: str, name: str) -> None:
        if (verb, name) == ("delete", "node-2") and not before:
            key = ("nodeupgradetasks", None, name)
            body = scene.kube._objects[key]
            status = {"observedGeneration": 1, "phase": "Staging"}
            changed = {"spec": {**body["spec"], "order": 7}} if by == "a claim" else {"status": status}
            before.append(scene.kube._store(key, {**body, **changed}, by)["metadata"]["resourceVersion"])

    scene.kube.before_write = change
    await swept(scene, looks=1)
    assert (await scene.kube.get(TASKS, "node-2"))["metadata"]["resourceVersion"] == before[0]


async def claimed_again() -> Scene:
    """A node that one rollout has upgraded waits for the next."""
    scene = Scene(version="v1.34.9")
    await scene.fleet.add_node("node-0")
    await scene.apply("earlier")
    await scene.finish("earlier")
    await scene.apply("later", version="v1.34.9")
    while (await shown(scene))["node-0"] != "Pending":
        await scene.look("later")
    return scene


async def test_the_record_of_an_earlier_rollout_stays() -> None:
    """A rollout that still exists reports the node from there."""
    scene = await claimed_again()
    for rollout, left in (("later", ["earlier"]), ("earlier", [])):
        await scene.kube.delete(UPGRADES, rollout)
        for _ in range(3):
            await scene.look(rollout)
        await swept(scene)
        tasks = await scene.kube.list(TASKS)
        assert [run["upgrade"] for task in tasks for run in task["spec"]["history"]] == left
    assert tasks == []


async def test_a_record_without_a_rollout_that_waits_is_not_shown_as_pending() -> None:
    """Its own rollout is gone, and the next one that claims the node lets it wait again."""
    scene = await claimed_again()
    await scene.kube.delete(UPGRADES, "later")
    for _ in range(3):
        await scene.look("later")
    await swept(scene)
    assert await shown(scene) == {"node-0": "Released"}
    before = (await scene.kube.get(TASKS, "node-0"))["metadata"]["resourceVersion"]
    await swept(scene)
    assert (await scene.kube.get(TASKS, "node-0"))["metadata"]["resourceVersion"] == before
    await scene.apply("third", version="v1.34.9")
    while (await shown(scene))["node-0"] != "Pending":
        await scene.look("third")


async def test_agents_are_listed_once_however_many_tasks_go() -> None:
    scene = Scene()
    for number in range(20):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply()
    while len(await shown(scene)) < 20:
        await scene.step()
    await leave(scene, "abandoned")
    listed = list[str]()
    original = scene.kube.list

    async def counting(resource: Resource, **how: Any) -> list[Json]:
        listed.append(resource.plural)
        return await original(resource, **how)

    scene.kube.list = counting  # type: ignore[method-assign]
    await clean_leftover_tasks(scene.kube, LiveFleet(scene.kube, None, read_upgrade), NAMESPACE)
    assert listed.count("pods") == 1
    assert await shown(scene) == {}


class Unlisted(InMemoryKube):
    """Lists no objects of one kind."""

    hidden: Resource | None = None

    async def list(self, resource: Resource, **options: Any) -> list[Json]:
        if resource == self.hidden:
            raise UnavailableError("not now")
        return await super().list(resource, **options)


async def test_what_cannot_be_removed_keeps_nothing_else_from_being_removed() -> None:
    scene = Scene(kube_type=Unlisted)
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.finish()
    task, agents = parse_task(await scene.kube.get(TASKS, "node-0")), PODS.within(NAMESPACE)
    settings = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
    await scene.kube.create(agents, agent_pod(task, settings))
    await scene.kube.replace_status(agents, "nodeupgrade-agent-node-0", {"phase": "Succeeded"})

    scene.kube.hidden = TASKS  # type: ignore[attr-defined]

    with pytest.raises(UnavailableError):
        await Sweep(scene.kube, LiveFleet(scene.kube, NAMESPACE, read_upgrade), NAMESPACE).run()

    assert await scene.kube.list(agents) == []
