"""Machines that Cluster API hands over, on the simulated fleet: asked until each is done, or a person is needed."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.capi.extension import Extension
from nodeupgrade.capi.machines import MACHINES
from nodeupgrade.capi.requests import Hook
from nodeupgrade.capi.rollouts import Rollouts, name_of
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, UnavailableError
from tests.builders import cluster_api
from tests.builders.cluster_api import DEPLOYMENT, NAMESPACE, NEW, OLD, ROLLOUTS
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

FIRST = name_of(NAMESPACE, DEPLOYMENT, NEW)


class Handed(Scene):
    """A management cluster, which is its own workload cluster."""

    @property
    def extension(self) -> Extension:
        """It knows nothing of earlier questions."""
        return Extension(self.kube, self.kube, lambda: ROLLOUTS, lambda: self.now)

    async def add(self, name: str, deployment: str = DEPLOYMENT, *, handed: bool = True) -> None:
        await self.fleet.add_node(name, overrides=cluster_api.as_node_of(f"m-{name}"))
        await self.fleet.add_pod(f"web-{name}", name)
        body = cluster_api.machine(
            f"m-{name}", name, deployment=deployment, version=NEW if handed else OLD, updating=handed
        )
        await self.kube.create(MACHINES.within(NAMESPACE), body)

    async def ask(self, name: str, version: str = NEW) -> Json:
        """What the extension answers; it is done only with the control plane's own verdict."""
        body = json.dumps(cluster_api.update_machine(f"m-{name}", version)).encode()
        answer = await self.extension.answer(Hook.UPDATE_MACHINE, body)
        if answer["status"] == "Success" and not answer["retryAfterSeconds"]:
            task = await self.kube.get(TASKS, name)
            assert task["spec"]["verdict"]["outcome"] == "Succeeded"
            assert (await self.node(name))["status"]["nodeInfo"]["kubeletVersion"] == NEW
        return answer

    async def rollouts(self) -> list[str]:
        return [body["metadata"]["name"] for body in await self.kube.list(UPGRADES)]

    async def until(self, name: str, ends: Callable[[Json], bool], *, passes: int = 60) -> Json:
        """Ask, as Cluster API does, until an answer ends it; the operator reconciles every NodeUpgrade meanwhile."""
        for _ in range(passes):
            answer = await self.ask(name)
            if ends(answer):
                return answer
            for rollout in await self.rollouts():
                for _ in range(6):
                    await self.step(rollout)
            self.now += timedelta(seconds=15)
        pytest.fail(f"{answer} after {passes} questions: {self.story[-5:]}")


def done(answer: Json) -> bool:
    return bool(answer["status"] == "Success" and answer["retryAfterSeconds"] == 0)


def failed(answer: Json) -> bool:
    return bool(answer["status"] == "Failure")


async def test_nodes_of_a_deployment_share_one_rollout_though_they_come_one_by_one() -> None:
    scene = Handed()
    for name in ("node-0", "node-1", "node-2"):
        await scene.add(name)
    for name in ("node-0", "node-1", "node-2"):
        await scene.until(name, done)
    assert await scene.rollouts() == [FIRST]
    assert (await scene.upgrade(FIRST)).status.counts.succeeded == 3


async def test_only_what_was_handed_over_is_touched() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.add("node-1", handed=False)
    await scene.until("node-0", done)
    assert (await scene.node("node-1"))["status"]["nodeInfo"]["kubeletVersion"] == OLD
    assert failed(await scene.ask("node-1")), "a request that Cluster API has not made"
    assert "labels" not in (await scene.node("node-1"))["metadata"] or not any(
        "capi" in label for label in (await scene.node("node-1"))["metadata"]["labels"]
    )


async def test_a_request_that_cluster_api_has_not_made_changes_nothing() -> None:
    """Its Machine has the version, but nothing says that it is to be updated in place."""
    scene = Handed()
    await scene.add("node-0")
    await scene.kube.merge(MACHINES.within(NAMESPACE), "m-node-0", {"metadata": {"annotations": None}})
    assert failed(await scene.ask("node-0"))
    assert await scene.rollouts() == []


async def test_a_hostile_caller_can_but_repeat_what_cluster_api_asks() -> None:
    """Whatever the requests claim: what they are about is read from the API server, and a question writes nothing."""
    scene, writes = Handed(), list[str]()
    await scene.add("node-0")
    await scene.add("node-1", handed=False)
    await scene.fleet.add_node("node-2", overrides=cluster_api.as_node_of("m-node-2"))
    scene.kube.before_write = lambda _verb, name: writes.append(name)
    assert failed(await scene.ask("node-0", "v1.32.0")), "not the version of the Machine"
    assert failed(await scene.ask("node-1")), "its Machine says nothing, though the request has the annotations"
    assert failed(await scene.ask("node-2")), "a Node without a Machine"
    for control_plane in (False, True):
        body = cluster_api.can_update_machine(cluster_api.spec(), cluster_api.spec(NEW), control_plane=control_plane)
        await ask_whether(scene, body, Hook.CAN_UPDATE_MACHINE)
        await ask_whether(scene, cluster_api.can_update_machine_set(control_plane=control_plane))
    assert writes == []


async def test_two_deployments_have_rollouts_of_their_own() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.add("node-1", "others")
    await scene.until("node-0", done)
    await scene.until("node-1", done)
    assert sorted(await scene.rollouts()) == sorted([FIRST, name_of(NAMESPACE, "others", NEW)])


@pytest.mark.parametrize("part", [Part.REFUSE, Part.ROLL_BACK, Part.LIE])
async def test_a_node_that_fails_says_what_to_do_and_goes_on_after_a_retry(part: Part) -> None:
    scene = Handed(parts={"node-0": part})
    await scene.add("node-0")
    answer = await scene.until("node-0", failed)
    assert FIRST in answer["message"]
    assert "nodeupgrade.dev/retry" in answer["message"]
    assert await scene.ask("node-0") == answer, "it stays so"
    scene.parts.clear()
    if part is Part.LIE:  # it runs the version, and only the verdict says that a container restarted
        return
    await scene.kube.merge(UPGRADES, FIRST, {"metadata": {"annotations": {"nodeupgrade.dev/retry": "mended"}}})
    await scene.until("node-0", done)
    assert await scene.rollouts() == [FIRST]


async def press(scene: Handed, name: str, status: str) -> None:
    await scene.kube.set_condition(NODES, name, "MemoryPressure", {"status": status})


async def test_a_node_refused_before_it_is_touched_is_a_failure_until_the_cause_is_removed() -> None:
    scene = Handed()
    await scene.add("node-0")
    await press(scene, "node-0", "True")
    answer = await scene.until("node-0", failed)
    assert "node-0 reports MemoryPressure" in answer["message"]
    assert "goes on by itself" in answer["message"]
    assert "retry" not in answer["message"]
    await press(scene, "node-0", "False")
    await scene.until("node-0", done)
    assert await scene.rollouts() == [FIRST]


async def test_of_several_nodes_each_says_its_own_refusal() -> None:
    scene = Handed()
    for name in ("node-0", "node-1"):
        await scene.add(name)
        await press(scene, name, "True")
        assert f"{name} reports MemoryPressure" in (await scene.until(name, failed))["message"]


async def test_a_node_that_is_not_ready_is_waited_for_however_long_it_takes() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.kube.set_condition(NODES, "node-0", "Ready", {"status": "False"})
    await scene.until("node-0", lambda answer: "node-0 is not Ready" in answer["message"])
    scene.now += timedelta(hours=1)
    for _ in range(6):
        await scene.step(FIRST)
    answer = await scene.ask("node-0")
    assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", 15)
    await scene.kube.set_condition(NODES, "node-0", "Ready", {"status": "True"})
    await scene.until("node-0", done)


async def test_a_node_that_was_passed_over_says_why() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.kube.merge(NODES, "node-0", {"spec": {"unschedulable": True}})
    answer = await scene.until("node-0", failed)
    assert "1 skipped (CordonedByOthers). Remove the cause; then set" in answer["message"]
    await scene.kube.merge(NODES, "node-0", {"spec": {"unschedulable": None}})
    await scene.kube.merge(UPGRADES, FIRST, {"metadata": {"annotations": {"nodeupgrade.dev/retry": "mended"}}})
    await scene.until("node-0", done)


async def test_after_a_rollback_no_other_node_is_started() -> None:
    scene = Handed(parts={"node-0": Part.ROLL_BACK})
    await scene.add("node-0")
    await scene.add("node-1")
    await scene.until("node-0", failed)
    assert FIRST in (await scene.until("node-1", failed))["message"]
    assert (await scene.node("node-1"))["status"]["nodeInfo"]["kubeletVersion"] == OLD


async def test_a_node_that_was_refused_stops_no_other() -> None:
    scene = Handed(parts={"node-0": Part.REFUSE})
    await scene.add("node-0")
    await scene.add("node-1")
    await scene.until("node-0", failed)
    await scene.until("node-1", done)


async def test_a_paused_rollout_is_waited_for_and_an_aborted_one_is_not() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.ask("node-0")
    await scene.kube.merge(UPGRADES, FIRST, {"spec": {"action": "Pause"}})
    for _ in range(20):
        await scene.step(FIRST)
    answer = await scene.ask("node-0")
    assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", 15)
    assert "paused" in answer["message"]
    await scene.kube.merge(UPGRADES, FIRST, {"spec": {"action": "Abort"}})
    assert "delete it" in (await scene.until("node-0", failed))["message"]
    await scene.kube.merge(UPGRADES, FIRST, {"metadata": {"finalizers": None}})
    await scene.kube.delete(UPGRADES, FIRST)
    await scene.until("node-0", done)


@pytest.mark.parametrize("lost", range(3))
@pytest.mark.parametrize("before", [True, False])
async def test_it_goes_on_wherever_a_write_was_lost(lost: int, before: bool) -> None:
    """Label, NodeUpgrade, retry: none is made twice, and none is forgotten."""
    scene, writes = Handed(), 0

    def lose(_verb: str, _name: str) -> None:
        nonlocal writes
        writes += 1
        if writes == lost + 1:
            raise UnavailableError("the connection was lost")

    await scene.add("node-0")
    await scene.add("node-1")
    for name in ("node-0", "node-1"):
        for _ in range(3):
            hook = "before_write" if before else "after_write"
            setattr(scene.kube, hook, lose)
            await scene.ask(name)
            setattr(scene.kube, hook, lambda _verb, _name: None)
        await scene.until(name, done)
    assert writes > lost
    assert await scene.rollouts() == [FIRST]


async def test_a_node_of_another_cluster_is_left_alone() -> None:
    """It has the same name, as in many clusters."""
    scene = Handed()
    await scene.add("node-0")
    await scene.kube.merge(NODES, "node-0", {"metadata": {"annotations": {"cluster.x-k8s.io/cluster-namespace": "b"}}})
    answer = await scene.ask("node-0")
    assert failed(answer)
    assert "not in this cluster" in answer["message"]
    assert await scene.rollouts() == []


async def test_a_rollout_of_that_name_that_is_a_persons_is_not_used() -> None:
    scene = Handed()
    await scene.add("node-0")
    await scene.apply(FIRST)
    assert "delete it" in (await scene.ask("node-0"))["message"]


async def ask_whether(scene: Handed, body: Json, hook: Hook = Hook.CAN_UPDATE_MACHINE_SET) -> Json:
    return await scene.extension.answer(hook, json.dumps(body).encode())


async def test_a_set_whose_nodes_may_all_be_upgraded_is_changed_in_place() -> None:
    scene = Handed()
    await scene.add("node-0", handed=False)
    assert "machineSetPatch" in await ask_whether(scene, cluster_api.can_update_machine_set())
    assert await scene.rollouts() == []


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"status": {"nodeInfo": {"operatingSystem": "windows"}}}, "not linux"),
        ({"status": {"nodeInfo": {"kubeletVersion": "v1.34.1"}}}, "newer than"),
        ({"status": {"nodeInfo": {"kubeletVersion": "?"}}}, "not a version"),
        ({"status": {"nodeInfo": {"architecture": "arm64"}}}, "linux-arm64"),
        ({"status": {"nodeInfo": {"containerRuntimeVersion": "rkt://1"}}}, "rkt"),
        ({"metadata": {"annotations": {"nodeupgrade.dev/skip": "a test"}}}, "to be skipped"),
    ],
)
async def test_one_node_that_would_be_refused_for_good_leaves_it_to_cluster_api(overrides: Json, said: str) -> None:
    scene = Handed()
    await scene.add("node-0", handed=False)
    await scene.add("node-1", handed=False)
    body = await scene.kube.merge(NODES, "node-1", {"metadata": overrides.get("metadata", {})})
    info = body["status"]["nodeInfo"] | overrides.get("status", {}).get("nodeInfo", {})
    await scene.kube.replace_status(NODES, "node-1", {**body["status"], "nodeInfo": info})
    answer = await ask_whether(scene, cluster_api.can_update_machine_set())
    assert answer.keys() == {"apiVersion", "kind", "status", "message"}
    assert answer["status"] == "Success"
    assert said in answer["message"]


async def test_machines_of_another_cluster_are_left_to_cluster_api() -> None:
    """Of their Nodes, some names are unknown here, and some are those of other Machines."""
    scene = Handed()
    await scene.add("node-0", handed=False)
    await scene.add("node-1", handed=False)
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.merge(NODES, "node-1", cluster_api.as_node_of("m-other"))
    answer = await ask_whether(scene, cluster_api.can_update_machine_set())
    assert answer.keys() == {"apiVersion", "kind", "status", "message"}
    assert answer["status"] == "Success"
    assert "not in this cluster" in answer["message"]


@pytest.mark.parametrize("why", ["its Node is deleted", "its Node is new", "its Node is another Machine's"])
async def test_one_machine_without_its_node_is_no_reason_to_replace_the_others(why: str) -> None:
    scene = Handed()
    for name in ("node-0", "node-1", "node-2"):
        await scene.add(name, handed=False)
    match why:
        case "its Node is deleted":
            await scene.kube.delete(NODES, "node-2")
        case "its Node is new":
            await scene.kube.merge(NODES, "node-2", {"metadata": {"annotations": None}})
        case _:
            await scene.kube.merge(NODES, "node-2", cluster_api.as_node_of("m-other"))
    assert "machineSetPatch" in await ask_whether(scene, cluster_api.can_update_machine_set())


@pytest.mark.parametrize("here", [True, False])
async def test_a_machine_that_is_being_deleted_only_shows_whose_the_others_are(here: bool) -> None:
    """Its Node may be gone first. Those of another cluster are left to Cluster API, also while none has a Node yet."""
    scene = Handed()
    await scene.add("node-0", handed=False)
    going: Json = {"finalizers": ["machine.cluster.x-k8s.io"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    await scene.kube.merge(MACHINES.within(NAMESPACE), "m-node-0", {"metadata": going})
    if not here:
        await scene.kube.delete(NODES, "node-0")
    answer = await ask_whether(scene, cluster_api.can_update_machine_set())
    assert ("machineSetPatch" in answer) is here


async def test_a_node_that_is_not_ready_now_is_no_reason_to_replace_it() -> None:
    scene = Handed()
    await scene.fleet.add_node(
        "node-0", overrides=cluster_api.as_node_of("m-node-0") | {"spec": {"unschedulable": True}}
    )
    await scene.kube.create(MACHINES.within(NAMESPACE), cluster_api.machine("m-node-0", "node-0", updating=False))
    await scene.kube.set_condition(NODES, "node-0", "Ready", {"status": "False"})
    assert "machineSetPatch" in await ask_whether(scene, cluster_api.can_update_machine_set())


async def test_what_cannot_be_found_out_is_a_failure_and_no_empty_answer() -> None:
    class Unreachable(Handed):
        @property
        def extension(self) -> Extension:
            def rollouts() -> Rollouts:
                raise UnavailableError("no answer")

            return Extension(self.kube, self.kube, rollouts, lambda: self.now)

    answer = await ask_whether(Unreachable(), cluster_api.can_update_machine_set())
    assert failed(answer)
    for body in (b"", b"{", b"[]", b"[" * 100_000, b'{"kind": 1}'):
        for hook in (Hook.CAN_UPDATE_MACHINE, Hook.CAN_UPDATE_MACHINE_SET, Hook.UPDATE_MACHINE):
            assert failed(await Handed().extension.answer(hook, body))


@pytest.mark.parametrize("here", [True, False])
async def test_a_file_that_lists_no_kubelet_at_all_is_not_set_up(here: bool) -> None:
    """Nothing is replaced because of that; Machines of another cluster are left to Cluster API all the same."""

    class Empty(Handed):
        @property
        def extension(self) -> Extension:
            return Extension(self.kube, self.kube, Rollouts, lambda: self.now)

    scene = Empty()
    await scene.add("node-0", handed=False)
    if not here:
        await scene.kube.delete(NODES, "node-0")
    answer = await ask_whether(scene, cluster_api.can_update_machine_set())
    assert failed(answer) is here
    assert ("list them in ConfigMap nodeupgrade-capi" in answer["message"]) is here


@pytest.mark.parametrize("version", ["v1.38.0", "v1.31.0"])
async def test_a_version_without_a_kubelet_or_newer_than_the_api_server_is_left_to_cluster_api(version: str) -> None:
    scene = Handed(version="v1.30.0") if version == "v1.31.0" else Handed()
    answer = await ask_whether(scene, cluster_api.can_update_machine_set(after=cluster_api.spec(version)))
    assert answer.keys() == {"apiVersion", "kind", "status", "message"}


async def test_a_control_plane_is_refused_with_the_recipe() -> None:
    scene = Handed()
    asked = cluster_api.can_update_machine(cluster_api.spec(), cluster_api.spec(NEW), control_plane=True)
    answer = await ask_whether(scene, asked, Hook.CAN_UPDATE_MACHINE)
    assert answer["status"] == "Success"
    assert "machinePatch" not in answer
    assert "docs/kubeadm.md" in answer["message"]
    await scene.fleet.add_node("node-0", overrides=cluster_api.as_node_of("m-node-0"))
    machine = cluster_api.machine("m-node-0", "node-0", deployment=None, control_plane=True)
    await scene.kube.create(MACHINES.within(NAMESPACE), machine)
    answer = await scene.ask("node-0")
    assert failed(answer)
    assert "kubeadm upgrade" in answer["message"]
    assert await scene.rollouts() == []
