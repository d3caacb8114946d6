"""The readiness guard over whole rollouts: what its parameters say at each moment, and what people are told."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.kube_api import EVENTS, NODES, PODS, TASKS, UPGRADES, ForbiddenError, RejectedError, Resource
from nodeupgrade.fleet.actions import RaiseGuard
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import GUARD, Scene


class ClosedKube(InMemoryKube):
    """The operator may not read the guard's parameters: it is newer than its rights."""

    async def get(self, resource: Resource, name: str) -> Json:
        if resource == GUARD:
            raise ForbiddenError(f"cannot get {name}")
        return await InMemoryKube.get(self, resource, name)


def unwilling(scene: Scene, allowed: int) -> list[datetime]:
    """Let some admission webhook refuse changes of the guard's parameters, after so many; return when it did."""
    left, refused = [None] * allowed, list[datetime]()

    def deny(verb: str, name: str) -> None:
        if (verb, name) != ("merge", GUARD_NAME):
            return
        if not left:
            refused.append(scene.now)
            raise RejectedError("denied by policy of the house")
        left.pop()

    scene.kube.before_write = deny
    return refused


async def stage(scene: Scene, count: int = 1, *, guard: bool = True, **spec: Any) -> Scene:
    for number in range(count):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    if guard:
        await scene.install_guard()
    await scene.apply(**spec)
    return scene


async def parameters(scene: Scene) -> dict[str, str]:
    return dict((await scene.kube.get(GUARD, GUARD_NAME)).get("data") or {})


async def condition(scene: Scene) -> tuple[str, str, str]:
    (told,) = [c for c in (await scene.upgrade()).status.conditions if c.type == "ReadinessGuarded"]
    return told.status, told.reason, told.message


async def task(scene: Scene, name: str = "node-0") -> Task:
    return await scene.kube.get_task(name)


async def until(scene: Scene, phase: str, name: str = "node-0") -> None:
    """Go on until the node reports a phase; the operator has not seen it yet."""
    for _ in range(60):
        tasks = {body["metadata"]["name"]: body for body in await scene.kube.list(TASKS)}
        if tasks.get(name, {}).get("status", {}).get("phase") == phase:
            return
        await scene.step()
    raise AssertionError(f"{name} never reported {phase}")


@pytest.mark.parametrize("installed", [True, False])
async def test_a_plan_is_told_whether_nodes_would_be_guarded_and_guards_none(installed: bool) -> None:
    scene = await stage(Scene(), guard=installed, action="Plan")
    await until(scene, "Prechecked")
    assert (await task(scene)).spec.guard == GuardGrant(wanted=installed)
    assert not installed or await parameters(scene) == {}


async def test_what_guards_a_node_from_the_request_to_the_end() -> None:
    scene = await stage(Scene(), verify={"settle": "10s", "kubeletDownBudget": "40s"})
    await until(scene, "Staged")
    asked = scene.now
    await scene.step()
    runs_by = asked + timedelta(seconds=30 + 40)
    raised = {"node-0": timestamp(runs_by), "node_node-0": timestamp(runs_by + timedelta(seconds=10 + 40 + 20))}
    assert await parameters(scene) == raised
    assert (await task(scene)).spec.guard.kubelet_runs_by == runs_by
    await until(scene, "Verifying")
    scene.now += timedelta(milliseconds=300)
    await scene.step()
    started = (scene.now - timedelta(seconds=1)).replace(microsecond=0) + timedelta(seconds=1)
    narrowed = {"node-0": timestamp(started), "node_node-0": timestamp(started + timedelta(seconds=10 + 40 + 20))}
    assert await parameters(scene) == narrowed
    assert (await task(scene)).spec.guard.kubelet_runs_by == started
    await scene.finish(patience=3)
    assert await parameters(scene) == {}


async def test_a_guard_is_not_narrowed_to_before_the_start_if_the_operators_clock_is_slow() -> None:
    scene = await stage(Scene())
    await until(scene, "Verifying")
    started = timestamp(scene.now + timedelta(seconds=9))
    body = await scene.kube.get(TASKS, "node-0")
    [start] = [step for step in body["status"]["steps"] if step["name"] == Step.START_KUBELET]
    start["startedAt"] = start["finishedAt"] = started
    await scene.kube.replace_status(TASKS, "node-0", body["status"])
    for _ in range(3):
        scene.now += timedelta(milliseconds=400)
        await scene.operator.reconcile("to-1-33")
        assert (await parameters(scene))["node-0"] == started


async def starts(began: str, ended: str) -> Scene:
    """A node whose agent reports these times of the kubelet's start; the operator has looked at it since."""
    scene = await stage(Scene())
    await until(scene, "Verifying")
    body = await scene.kube.get(TASKS, "node-0")
    [start] = [step for step in body["status"]["steps"] if step["name"] == Step.START_KUBELET]
    start["startedAt"], start["finishedAt"] = began, ended
    await scene.kube.replace_status(TASKS, "node-0", body["status"])
    await scene.operator.reconcile("to-1-33")
    return scene


async def test_pods_of_a_node_on_which_the_kubelet_starts_slowly_stay_guarded_as_much_longer() -> None:
    scene = await starts("2026-01-01T00:00:02Z", "2026-01-01T00:00:09Z")
    assert (await parameters(scene))["node-0"] == timestamp(scene.now + timedelta(seconds=7))


@pytest.mark.parametrize(
    ("began", "ended", "narrowed"),
    [
        ("2026-01-01T00:00:09Z", "2026-01-01T00:00:02Z", True),
        ("0001-01-01T00:00:00Z", "2026-01-01T00:00:09Z", False),
        ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", False),
        ("9999-12-31T23:59:58Z", "9999-12-31T23:59:59.999Z", False),
    ],
)
async def test_no_times_that_a_node_reports_end_a_guard_early_or_stop_the_rollout(
    began: str, ended: str, narrowed: bool
) -> None:
    scene = await starts(began, ended)
    until_then = (await parameters(scene))["node-0"]
    assert until_then == timestamp(scene.now) if narrowed else until_then > timestamp(scene.now)


@pytest.mark.parametrize("phase", ["Running", "Verifying"])
async def test_a_guard_that_somebody_took_away_is_raised_again_as_it_was(phase: str) -> None:
    scene = await stage(Scene())
    await until(scene, phase)
    await scene.operator.reconcile("to-1-33")
    guarded = await parameters(scene)
    assert set(guarded) == {"node-0", "node_node-0"}
    await scene.kube.delete(GUARD, GUARD_NAME)
    await scene.operator.reconcile("to-1-33")
    await scene.install_guard()
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == guarded
    await scene.kube.merge(GUARD, GUARD_NAME, {"data": dict.fromkeys(guarded)})
    scene.now = datetime.fromisoformat(guarded["node_node-0"])
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == {}


async def test_a_narrowed_guard_is_not_written_again() -> None:
    scene = await stage(Scene())
    await until(scene, "Verifying")
    await scene.operator.reconcile("to-1-33")
    version = (await scene.kube.get(GUARD, GUARD_NAME))["metadata"]["resourceVersion"]
    for _ in range(3):
        scene.now += timedelta(milliseconds=400)
        await scene.operator.reconcile("to-1-33")
    assert (await scene.kube.get(GUARD, GUARD_NAME))["metadata"]["resourceVersion"] == version


async def test_the_guard_is_prolonged_while_no_kubelet_runs_but_not_for_ever() -> None:
    scene = await stage(Scene(), verify={"settle": "10s", "kubeletDownBudget": "40s"})
    await until(scene, "Running")
    before = await parameters(scene)
    end = datetime.fromisoformat(before["node_node-0"])
    scene.now = runs_by = datetime.fromisoformat(before["node-0"])
    await scene.operator.reconcile("to-1-33")
    prolonged = runs_by + timedelta(seconds=40)
    assert await parameters(scene) == before | {"node-0": timestamp(prolonged)}
    assert (await task(scene)).spec.guard.kubelet_runs_by == prolonged
    for _ in range(5):
        scene.now += timedelta(seconds=40)
        await scene.operator.reconcile("to-1-33")
    last = await parameters(scene)
    assert datetime.fromisoformat(last["node-0"]) < end + timedelta(seconds=40)
    assert last["node_node-0"] == before["node_node-0"]


async def test_nodes_that_ask_together_are_answered_together() -> None:
    scene = await stage(Scene(), 3, strategy={"maxConcurrent": 3})
    for node in ("node-0", "node-1", "node-2"):
        await until(scene, "Staged", node)
    done = await scene.operator.reconcile("to-1-33")
    assert [a.node for a in done.applied if isinstance(a, RaiseGuard)] == ["node-0", "node-1", "node-2"]
    assert not done.conflicted
    assert len(await parameters(scene)) == 6


async def test_what_was_left_behind_is_swept_and_what_is_in_use_is_not() -> None:
    scene = await stage(Scene(), 2, nodes={"names": ["node-0"]})
    await scene.apply("other", nodes={"names": ["node-1"]})
    await until(scene, "Staged")
    old, young = (timestamp(scene.now - timedelta(minutes=minutes)) for minutes in (61, 59))
    left = {"gone": old, "node_gone": old, "recent": young, "odd": "tomorrow", "local": "2026-01-01T00:00:00"}
    await scene.kube.merge(GUARD, GUARD_NAME, {"data": left})
    for _ in range(9):
        await scene.operator.reconcile("other")
    busy = await scene.kube.get(TASKS, "node-1")
    assert busy["spec"]["action"] == "Upgrade"
    await scene.kube.merge(GUARD, GUARD_NAME, {"data": {"node-1": old}})
    await scene.step()
    assert set(await parameters(scene)) == {"node-0", "node_node-0", "recent", "node-1"}


async def test_a_run_that_is_called_off_before_it_was_answered_is_not_guarded() -> None:
    scene = await stage(Scene())
    await until(scene, "Staged")
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Abort"}})
    await scene.finish(patience=3)
    assert await parameters(scene) == {}
    assert not any(line.startswith("RaiseGuard") for line in scene.story)


@pytest.mark.parametrize("looks", ["unready", "ready", "no guard"])
async def test_a_node_is_judged_by_what_its_kubelet_says_unguarded(looks: str) -> None:
    """The kubelet wants to report the node unready all the time, and the guard does not let it."""
    scene = await stage(Scene(), guard=looks != "no guard", verify={"settle": "10s", "nodeReadyTimeout": "30s"})
    await until(scene, "Succeeded")
    over = scene.now
    while (await task(scene)).spec.verdict is None:
        if looks == "unready" and "node_node-0" not in await parameters(scene):
            status = (await scene.node("node-0"))["status"]
            status["conditions"] = [{"type": "Ready", "status": "False"}]
            await scene.kube.replace_status(NODES, "node-0", status)
        await scene.step()
    verdict = (await task(scene)).spec.verdict
    assert verdict is not None
    assert verdict.outcome == ("Failed" if looks == "unready" else "Succeeded")
    assert (scene.now - over > timedelta(seconds=12)) == (looks != "no guard")


async def settling(part: Part, exposure: int = 20) -> Scene:
    """Go on until a new kubelet is being watched that may need so many seconds to probe every pod."""
    scene = await stage(Scene(parts={"node-0": part}), verify={"settle": "60s", "kubeletDownBudget": "40s"})
    await until(scene, "Verifying")
    body = await scene.kube.get(TASKS, "node-0")
    body["status"]["guard"]["exposureSeconds"] = exposure
    await scene.kube.replace_status(TASKS, "node-0", body["status"])
    return scene


async def shows_new_kubelet(scene: Scene, *, ready: bool = True) -> None:
    status = (await scene.node("node-0"))["status"]
    status["nodeInfo"]["kubeletVersion"] = "v1.33.13"
    status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    await scene.kube.replace_status(NODES, "node-0", status)


async def wait_with_guard_ended(scene: Scene) -> dict[str, str]:
    """Let the settle period go on until the guard of the Node has ended; return the parameters before that."""
    await shows_new_kubelet(scene)
    await scene.operator.reconcile("to-1-33")
    narrowed = await parameters(scene)
    scene.now += timedelta(seconds=25)
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == {"node-0": narrowed["node-0"], "lifted_node-0": timestamp(scene.now)}
    return narrowed


async def test_reports_of_the_kubelet_are_heard_within_the_settle_period() -> None:
    scene = await settling(Part.SUCCEED)
    await wait_with_guard_ended(scene)
    scene.now += timedelta(seconds=15)
    version = (await scene.kube.get(GUARD, GUARD_NAME))["metadata"]["resourceVersion"]
    await scene.operator.reconcile("to-1-33")
    assert (await scene.kube.get(GUARD, GUARD_NAME))["metadata"]["resourceVersion"] == version
    await scene.kube.merge(GUARD, GUARD_NAME, {"data": {"node-0": None}})  # somebody does
    await until(scene, "Succeeded")
    assert "node_node-0" not in await parameters(scene)
    over = scene.now
    while (await task(scene)).spec.verdict is None:
        await scene.step()
    assert scene.now - over < timedelta(seconds=3)
    await scene.finish(patience=3)
    assert await parameters(scene) == {}


@pytest.mark.parametrize(
    ("exposure", "seconds", "shown", "ready"),
    [
        (20, 25, False, True),
        (20, 25, True, False),
        (20, 18, True, True),
        (0, 25, True, True),
        (2**63 - 1, 25, True, True),
    ],
    ids=["old version", "not Ready", "too early", "unknown exposure", "no end"],
)
async def test_a_guard_that_protects_something_does_not_end_early(
    exposure: int, seconds: int, shown: bool, ready: bool
) -> None:
    scene = await settling(Part.SUCCEED, exposure)
    if shown:
        await shows_new_kubelet(scene, ready=ready)
    await scene.operator.reconcile("to-1-33")
    narrowed = await parameters(scene)
    scene.now += timedelta(seconds=seconds)
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == narrowed


async def test_after_an_early_end_a_rollback_is_guarded_all_the_same_and_no_longer_than_before() -> None:
    scene = await settling(Part.ROLL_BACK)
    narrowed = await wait_with_guard_ended(scene)
    await scene.fleet.tick()
    assert (await task(scene)).reported.phase == "RollingBack"
    await scene.operator.reconcile("to-1-33")
    again = {"node-0": timestamp(scene.now + timedelta(seconds=40)), "node_node-0": narrowed["node_node-0"]}
    assert await parameters(scene) == again
    scene.now = datetime.fromisoformat(narrowed["node_node-0"])
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == again


async def test_after_an_early_end_the_old_kubelet_is_heard_although_nobody_saw_the_rollback() -> None:
    scene = await settling(Part.ROLL_BACK)
    await wait_with_guard_ended(scene)
    scene.now += timedelta(seconds=16)
    for _ in range(2):
        await scene.fleet.tick()
    over = scene.now
    assert (await task(scene)).reported.phase == "RolledBack"
    while (await task(scene)).spec.verdict is None:
        await scene.step()
    assert timedelta(seconds=15) <= scene.now - over < timedelta(seconds=20)


async def test_a_guard_does_not_end_early_where_the_node_still_shows_the_kubelet_that_was_rolled_back() -> None:
    scene = await settling(Part.ROLL_BACK)
    await shows_new_kubelet(scene)
    body = await scene.kube.get(TASKS, "node-0")
    undone = [{**step, "result": "Undone"} for step in body["status"]["steps"]]
    await scene.kube.replace_status(TASKS, "node-0", {**body["status"], "phase": "RollingBack", "steps": undone})
    await scene.operator.reconcile("to-1-33")
    narrowed = await parameters(scene)
    scene.now += timedelta(seconds=25)
    await scene.operator.reconcile("to-1-33")
    assert await parameters(scene) == narrowed


async def test_a_guard_that_cannot_be_ended_is_waited_for() -> None:
    scene = await stage(Scene(), verify={"settle": "10s", "kubeletDownBudget": "30s"})
    await until(scene, "Succeeded")
    ends = datetime.fromisoformat((await parameters(scene))["node_node-0"])
    unwilling(scene, 0)
    while (await task(scene)).spec.verdict is None:
        await scene.step()
    assert scene.now >= ends
    assert (await task(scene)).spec.verdict.outcome == "Succeeded"  # type: ignore[union-attr]


async def test_a_retry_asks_anew() -> None:
    scene = await stage(Scene(parts={"node-0": Part.ROLL_BACK}))
    await scene.finish(patience=3)
    scene.parts.clear()
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": {"nodeupgrade.dev/retry": "again"}}})
    await until(scene, "Staged")
    assert (await task(scene)).spec.guard.answers == ""
    await scene.finish(patience=3)
    assert await parameters(scene) == {}


@pytest.mark.parametrize("policy", ["Auto", "Require"])
async def test_a_guard_that_may_not_be_written_is_declined(policy: str) -> None:
    scene = await stage(Scene(), verify={"readinessGuard": policy})
    unwilling(scene, 0)
    await scene.finish(patience=3)
    declined = "node node-0 cannot be guarded: denied by policy of the house"
    events = [(e["reason"], e["message"]) for e in await scene.kube.list(EVENTS.within("default"))]
    assert ("ReadinessGuardUnavailable", declined) in events
    assert "ReadinessGuardRaised" not in dict(events)
    verdict = (await task(scene)).spec.verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == {
        "Auto": ("Succeeded", "Succeeded"), "Require": ("Failed", "ReadinessGuardUnavailable"),
    }[policy]  # fmt: skip


async def test_a_guard_that_cannot_be_lifted_does_not_keep_the_node() -> None:
    scene = await stage(Scene(), 2, strategy={"maxConcurrent": 2})
    refused = unwilling(scene, 1)
    await scene.finish()
    assert 2 < len(refused) < 20
    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert await scene.in_flight() == ()
    assert not any([(await scene.node(name))["spec"].get("unschedulable") for name in ("node-0", "node-1")])
    left = await parameters(scene)
    assert left
    assert max(map(datetime.fromisoformat, left.values())) < scene.now + timedelta(minutes=5)


async def test_a_retry_of_a_rollout_that_is_over_finds_the_guard_that_it_requires() -> None:
    scene = await stage(Scene(parts={"node-0": Part.ROLL_BACK}), verify={"readinessGuard": "Require"})
    await scene.finish(patience=3)
    scene.parts.clear()
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": {"nodeupgrade.dev/retry": "again"}}})
    await scene.finish(patience=3)
    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert not any(line.startswith("Refuse") for line in scene.story)


KEPT = "pods of a node in flight stay Ready until its new kubelet has probed them"
UNAVAILABLE = "nodes are upgraded without it, and their tasks list the pods that were reported unready meanwhile"
MISSING = f"ConfigMap {GUARD_NAME} does not exist or may not be read"


@pytest.mark.parametrize(
    ("scene", "guard", "spec", "told"),
    [
        (Scene(), True, {}, ("True", "ReadinessGuardRaised", KEPT)),
        (Scene(), False, {}, ("False", "ReadinessGuardUnavailable", f"{MISSING}; {UNAVAILABLE}")),
        (Scene(kube_type=ClosedKube), True, {}, ("False", "ReadinessGuardUnavailable", f"{MISSING}; {UNAVAILABLE}")),
        (
            Scene(version="v1.29.9"), True, {"version": "v1.29.9", "allowDowngrade": True},
            ("False", "ReadinessGuardUnavailable", f"the API server v1.29.9 is older than 1.30; {UNAVAILABLE}"),
        ),
        (
            Scene(), False, {"verify": {"readinessGuard": "Require"}},
            (
                "False", "ReadinessGuardUnavailable",
                f"{MISSING}; {Reason.READINESS_GUARD_UNAVAILABLE.remedy}.",
            ),
        ),
        (
            Scene(), True, {"verify": {"readinessGuard": "Off"}},
            ("False", "ReadinessGuardOff", "spec.verify.readinessGuard is Off"),
        ),
        (
            Scene(version="v1.35.1"), False, {"version": "v1.35.1"},
            ("False", "ReadinessGuardNotNeeded", "kubelet v1.35.1 keeps the results of probes"),
        ),
    ],
    ids=["guarded", "not installed", "may not be read", "old API server", "required", "off", "not needed"],
)  # fmt: skip
async def test_the_condition_says_whether_nodes_are_guarded(
    scene: Scene, guard: bool, spec: Json, told: tuple[str, str, str]
) -> None:
    await stage(scene, guard=guard, **spec)
    await scene.finish(patience=3)
    assert await condition(scene) == told
    guarded = any(line.startswith("RaiseGuard") for line in scene.story)
    assert guarded == (told[0] == "True")


async def test_the_verdict_names_pods_whose_clients_may_have_noticed() -> None:
    scene = await stage(Scene())
    for name, ready in (("well", "True"), ("ill", "True"), ("never", "False")):
        conditions = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        await scene.fleet.add_pod(name, "node-0", overrides=conditions)
    await until(scene, "Verifying")
    pods, body = PODS.within("default"), await scene.kube.get(TASKS, "node-0")
    body["status"]["containers"] = {"readinessFlaps": ["default/ill", "default/well"]}
    await scene.kube.replace_status(TASKS, "node-0", body["status"])
    ill = await scene.kube.get(pods, "ill")
    ill["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await scene.kube.replace_status(pods, "ill", ill["status"])
    await scene.finish(patience=3)
    verdict = (await task(scene)).spec.verdict
    assert verdict is not None
    assert verdict.message == (
        "node node-0 runs v1.33.13; 4 containers counted, each the instance it was before. 2 pods reported unready "
        "meanwhile: default/ill, default/well; 1 pod Ready before and not now: default/ill."
    )
    assert (verdict.outcome, verdict.restarted) == ("Succeeded", 0)


async def test_entries_that_no_run_needs_are_removed_and_no_others() -> None:
    scene = await stage(Scene(), 2, strategy={"maxConcurrent": 2})
    await until(scene, "Running")
    foreign = {"gone": "2026-01-01T00:00:00Z", "node_gone": "nonsense"}
    await scene.kube.merge(GUARD, GUARD_NAME, {"data": foreign})
    before = await parameters(scene)
    await scene.operator.sweep()
    assert await parameters(scene) == {key: value for key, value in before.items() if key not in foreign}
    assert "node-0" in await parameters(scene)


async def test_a_node_that_is_deleted_in_mid_run_leaves_no_entry() -> None:
    scene = await stage(Scene(), 2)
    await until(scene, "Running")
    await scene.kube.delete(NODES, "node-0")
    await scene.kube.delete(TASKS, "node-0")
    await scene.finish(patience=3)
    assert "node-0" in await scene.in_flight()  # it may register again, with its run still going on
    scene.now += timedelta(hours=2)
    await scene.finish(patience=3)
    await scene.operator.sweep()
    assert await parameters(scene) == {}
