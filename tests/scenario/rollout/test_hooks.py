"""Hooks over whole rollouts: what runs when, what a failure means, and that nothing is touched without them."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import HookResult
from nodeupgrade.api.values import Verdict
from nodeupgrade.cluster.kube_api import CRON_JOBS, JOBS, PODS, UPGRADES, ForbiddenError, RejectedError, Resource
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene, cron_job

HOOKS = {
    "before": [{"template": "silence"}, {"template": "set-noout", "timeout": "30s"}],
    "after": [{"template": "unset-noout", "timeout": "30s"}],
}
TEMPLATES = "silence", "set-noout", "unset-noout"


class NoJobs(InMemoryKube):
    """The operator's role is older than hooks."""

    async def get(self, resource: Resource, name: str) -> Json:
        if resource.plural == JOBS.plural and self.closed:
            raise ForbiddenError("cannot read jobs because the role says nothing of them")
        return await InMemoryKube.get(self, resource, name)

    closed = True


async def stage(count: int = 1, templates: tuple[str, ...] = TEMPLATES, **fields: Any) -> Scene:
    spec = {"hooks": HOOKS, **fields.pop("spec", {})}
    scene = Scene(**fields)
    for number in range(count):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    for name in templates:
        await scene.add_hook_template(name)
    await scene.apply(**spec)
    return scene


async def jobs(scene: Scene) -> dict[str, Json]:
    """Return the Jobs of hooks by node and template."""
    found = await InMemoryKube.list(scene.kube, JOBS.within(NAMESPACE))
    marks = [(job["metadata"]["annotations"], job) for job in found]
    made = {f"{of['nodeupgrade.dev/node']} {of['nodeupgrade.dev/template']}": job for of, job in marks}
    assert len(made) == len(found), "no hook runs twice"
    return made


def environment(job: Json) -> dict[str, str]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def told(scene: Scene, *words: str) -> list[str]:
    """Return the first words of what was decided, of these kinds."""
    return [line.partition(":")[0] for line in scene.story if line.split()[0].rstrip(":") in words]


async def hooks(scene: Scene, node: str = "node-0") -> list[tuple[str, HookResult | None]]:
    return [(hook.template, hook.result) for hook in (await scene.kube.get_task(node)).spec.hooks]


async def message(scene: Scene, kind: str) -> str:
    return next(c.message for c in (await scene.upgrade()).status.conditions if c.type == kind)


async def until_started(scene: Scene, template: str) -> None:
    for _ in range(60):
        if f"node-0 {template}" in await jobs(scene):
            return
        await scene.step()
    raise AssertionError(f"{template} was never started")


async def test_hooks_run_one_after_the_other_before_the_agent_and_after_the_verdict() -> None:
    scene = await stage()

    await scene.finish()

    order = told(scene, "Cordon", "StartTask", "StartHook", "RecordHook", "CreateAgent", "Judge", "RestoreCordon")
    assert order == [
        *("Cordon node-0", "StartTask node-0"),
        *("StartHook node-0", "RecordHook node-0", "StartHook node-0", "RecordHook node-0", "CreateAgent node-0"),
        *("Judge node-0", "RestoreCordon node-0", "StartHook node-0", "RecordHook node-0"),
    ]
    made = await jobs(scene)
    assert set(made) == {f"node-0 {template}" for template in TEMPLATES}
    assert await hooks(scene) == [(template, HookResult.SUCCEEDED) for template in TEMPLATES]
    assert (await scene.upgrade()).status.counts.succeeded == 1


async def test_a_hook_is_told_what_it_runs_for_and_may_not_take_longer_than_it_may() -> None:
    scene = await stage(parts={"node-0": Part.ROLL_BACK})

    await scene.finish()

    made = await jobs(scene)
    before, after = made["node-0 set-noout"], made["node-0 unset-noout"]
    assert before["spec"]["activeDeadlineSeconds"] == 30
    common = {
        "NODEUPGRADE_NODE": "node-0",
        "NODEUPGRADE_NAME": "to-1-33",
        "NODEUPGRADE_FROM_VERSION": "v1.30.14",
        "NODEUPGRADE_TO_VERSION": "v1.33.13",
    }
    assert environment(before) == {**common, "NODEUPGRADE_HOOK": "Before", "NODEUPGRADE_RESULT": ""}
    assert environment(after) == {**common, "NODEUPGRADE_HOOK": "After", "NODEUPGRADE_RESULT": "RolledBack"}
    [owner] = before["metadata"]["ownerReferences"]
    assert owner["uid"] == (await scene.upgrade()).uid


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        (("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"), HookResult.FAILED),
        (("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"), HookResult.TIMED_OUT),
        (None, HookResult.TIMED_OUT),
    ],
)
async def test_a_node_whose_hook_fails_is_refused_untouched_and_others_go_on(
    ends: tuple[str, str, str] | None, result: HookResult
) -> None:
    scene = await stage(2, spec={"nodes": {"names": ["node-0"]}})
    scene.fleet.hooks["set-noout"] = ends

    await scene.finish()

    status = (await scene.upgrade()).status
    [failure] = status.failures
    assert (failure.outcome, failure.reason) == (Verdict.REFUSED, "HookFailed")
    assert "node node-0 is untouched: hook set-noout: Job set-noout-before-node-0-" in failure.message
    assert not await scene.kube.list(PODS.within(NAMESPACE)), "no agent was created"
    assert await hooks(scene) == [
        ("silence", HookResult.SUCCEEDED), ("set-noout", result), ("unset-noout", HookResult.SUCCEEDED),
    ]  # fmt: skip
    assert not (await scene.node("node-0"))["spec"].get("unschedulable", False)
    assert environment((await jobs(scene))["node-0 unset-noout"])["NODEUPGRADE_RESULT"] == "Refused"


async def test_a_hook_that_fails_after_an_upgrade_is_reported_and_changes_nothing() -> None:
    scene = await stage()
    scene.fleet.hooks["unset-noout"] = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    await scene.finish()

    assert (await scene.upgrade()).status.counts.succeeded == 1
    assert ("NodeUpgrade", "HookFailed", 1) in await scene.events()
    assert ("Node", "HookFailed", 1) in await scene.events()
    assert (await hooks(scene))[-1] == ("unset-noout", HookResult.FAILED)


async def test_a_template_that_is_missing_is_told_of_and_looked_for_again() -> None:
    scene = await stage(templates=("silence", "unset-noout"))
    for _ in range(15):
        await scene.step()
    assert "there is no CronJob set-noout in namespace nodeupgrade-system" in await message(scene, "Ready")

    await scene.add_hook_template("set-noout")
    await scene.finish()

    assert (await scene.upgrade()).status.counts.succeeded == 1


async def test_a_template_that_never_comes_refuses_the_node() -> None:
    scene = await stage(templates=("silence", "unset-noout"))

    await scene.finish()

    [failure] = (await scene.upgrade()).status.failures
    assert (failure.outcome, failure.reason) == (Verdict.REFUSED, "HookFailed")
    assert "there is no CronJob set-noout" in failure.message


async def test_a_template_that_would_run_by_itself_is_no_template() -> None:
    scene = await stage(templates=("silence", "unset-noout"))
    await scene.kube.create(CRON_JOBS.within(NAMESPACE), cron_job("set-noout", suspend=False))

    await scene.finish()

    [failure] = (await scene.upgrade()).status.failures
    assert "CronJob set-noout is not suspended" in failure.message


async def test_a_hook_that_the_configuration_does_not_allow_begins_nothing() -> None:
    scene = await stage(spec={"hooks": {"after": [{"template": "reboot"}]}})

    await scene.finish()

    assert "does not allow the hook reboot" in await message(scene, "Ready")
    assert not (await scene.node("node-0"))["spec"].get("unschedulable", False)


async def test_what_a_policy_says_against_a_job_is_told() -> None:
    scene = await stage()

    def deny(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("set-noout"):
            raise RejectedError("denied by policy of the house")

    scene.kube.before_write = deny
    for _ in range(15):
        await scene.step()

    assert "denied by policy of the house" in await message(scene, "Ready")


async def test_a_job_of_that_name_that_is_somebody_elses_is_told_of() -> None:
    scene = await stage()

    def be_first(verb: str, name: str) -> None:
        key = (JOBS.plural, NAMESPACE, name)
        if verb == "create" and name.startswith("set-noout") and key not in scene.kube._objects:
            scene.kube._store(key, {"metadata": {"name": name, "annotations": {}}}, "create")

    scene.kube.before_write = be_first
    for _ in range(15):
        await scene.step()

    assert "exists, and was made for something else" in await message(scene, "Ready")


async def test_a_job_is_kept_until_its_end_has_been_seen() -> None:
    scene = await stage(templates=())
    for template in TEMPLATES:
        body = cron_job(template)
        body["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] = 0
        await scene.kube.create(CRON_JOBS.within(NAMESPACE), body)

    await scene.finish()

    assert {job["spec"]["ttlSecondsAfterFinished"] for job in (await jobs(scene)).values()} == {600}


async def test_without_the_right_to_read_jobs_nothing_is_touched_and_the_reason_is_told() -> None:
    scene = await stage(kube_type=NoJobs)
    for _ in range(15):
        await scene.step()
    assert "the role says nothing of them" in await message(scene, "Ready")
    assert not await scene.kube.list(PODS.within(NAMESPACE))

    assert isinstance(scene.kube, NoJobs)
    scene.kube.closed = False
    await scene.finish()

    assert (await scene.upgrade()).status.counts.succeeded == 1


async def test_a_hook_that_still_runs_when_the_rollout_is_aborted_ends_before_those_after() -> None:
    scene = await stage()
    scene.fleet.hooks["set-noout"] = None
    await until_started(scene, "set-noout")
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Abort"}})
    for _ in range(5):
        await scene.step()
    assert "node-0 unset-noout" not in await jobs(scene)

    scene.fleet.hooks["set-noout"] = ("Complete", "", "")
    await scene.finish()

    assert await hooks(scene) == [(template, HookResult.SUCCEEDED) for template in TEMPLATES]
    assert not await scene.kube.list(PODS.within(NAMESPACE))
    assert not (await scene.node("node-0"))["spec"].get("unschedulable", False)


async def test_a_rollout_that_is_deleted_in_mid_run_runs_its_hooks_to_the_end() -> None:
    scene = await stage()
    await until_started(scene, "set-noout")
    await scene.kube.delete(UPGRADES, "to-1-33")

    await scene.finish()

    assert await hooks(scene) == [(template, HookResult.SUCCEEDED) for template in TEMPLATES]
    assert not await scene.kube.list(UPGRADES)


async def test_a_node_that_could_not_be_rolled_back_runs_its_hooks_too() -> None:
    scene = await stage(parts={"node-0": Part.FAIL_TO_ROLL_BACK})

    await scene.finish()

    assert environment((await jobs(scene))["node-0 unset-noout"])["NODEUPGRADE_RESULT"] == "RollbackFailed"
    assert (await scene.upgrade()).status.in_flight == ()


async def test_hooks_taken_out_of_the_spec_in_mid_run_run_nevertheless() -> None:
    scene = await stage()
    await until_started(scene, "set-noout")
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"hooks": None}})
    for _ in range(60):
        await scene.step()

    assert await hooks(scene) == [(template, HookResult.SUCCEEDED) for template in TEMPLATES]


async def test_a_plan_runs_no_hooks() -> None:
    scene = await stage(spec={"action": "Plan"})

    await scene.finish()

    assert await jobs(scene) == {}


async def test_an_operator_that_dies_after_any_write_runs_each_hook_once() -> None:
    calm = await stage()
    await calm.finish()
    expected = await calm.end_state()

    for crash_at in range(1, calm.writes + 1):
        scene = await stage(crash_at=crash_at)
        await scene.finish()
        assert await scene.end_state() == expected, crash_at
        assert set(await jobs(scene)) == {f"node-0 {template}" for template in TEMPLATES}, crash_at
