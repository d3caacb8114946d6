"""Any fleet, any strategy, anything that befalls it: no budget is ever exceeded, and once faults stop it ends."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.values import Verdict
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, NotFoundError
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

FAILED = {Verdict.FAILED.value, Verdict.ROLLED_BACK.value}


@dataclass
class Case:
    """A fleet of up to five nodes in two zones, a strategy, and what happens at which step."""

    parts: list[Part]
    concurrent: int
    unavailable: int
    threshold: int
    per_zone: int
    manual: bool
    happenings: dict[int, tuple[str, int]]
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = [f"node-{number}" for number in range(len(self.parts))]

    @property
    def spec(self) -> Json:
        second = {"name": "second", "size": "100%", "approval": "Manual" if self.manual else "Auto", "soak": "20s"}
        return {
            "timeouts": {"node": "1m"},
            "waves": [{"name": "first", "size": 2, "soak": "20s"}, second],
            "strategy": {
                "maxConcurrent": self.concurrent,
                "maxUnavailable": self.unavailable,
                "failureThreshold": self.threshold,
                "topology": {"key": "zone", "maxPerDomain": self.per_zone, "mode": "Spread"},
            },
        }


HAPPENINGS = ("cordon", "uncordon", "sick", "well", "pause", "go on", "drop task", "retry", "restart")
CASES = st.builds(
    Case,
    parts=st.lists(
        st.sampled_from(
            [Part.SUCCEED, Part.SUCCEED, Part.ROLL_BACK, Part.REFUSE, Part.REFUSE_FOR_NOW, Part.HANG, Part.LIE]
        ),
        min_size=1,
        max_size=5,
    ),
    concurrent=st.integers(1, 4),
    unavailable=st.integers(1, 5),
    threshold=st.integers(1, 5),
    per_zone=st.integers(1, 3),
    manual=st.booleans(),
    happenings=st.dictionaries(
        st.integers(2, 40), st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 4)), max_size=8
    ),
)


LOST_TASK = Case(
    parts=[Part.REFUSE_FOR_NOW, *[Part.SUCCEED] * 4],
    concurrent=4,
    unavailable=2,
    threshold=1,
    per_zone=2,
    manual=True,
    happenings={15: ("cordon", 2), 34: ("retry", 0), 36: ("drop task", 0)},
)
"""A task is deleted once its node has a slot: the wave that needs an approval was opened by it."""


@given(case=CASES)
@example(case=LOST_TASK)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_budget_is_exceeded_and_it_ends(case: Case) -> None:
    asyncio.run(live_through(case))


async def live_through(case: Case) -> None:
    scene = Scene(parts=dict(zip(case.names, case.parts, strict=True)))
    for number, name in enumerate(case.names):
        await scene.fleet.add_node(name, overrides={"metadata": {"labels": {"zone": "ab"[number % 2]}}})
    await scene.apply(**case.spec)
    for step in range(45):
        if step in case.happenings:
            await befall(scene, case, *case.happenings[step])
        await watched_step(scene, case)
    for attempt in range(4):  # what was in flight when a retry was asked for may fail once more
        await mend(scene, case, attempt)
        for _ in range(60):
            if (await scene.upgrade()).finished:
                break
            await watched_step(scene, case)
    upgrade = await scene.upgrade()
    left = upgrade.status.counts.total  # none when every task was deleted by hand: then nothing is there to be done
    assert upgrade.finished or not left, upgrade.status.conditions
    assert upgrade.status.in_flight == ()
    assert not any(node["spec"].get("unschedulable") for node in await scene.kube.list(NODES))


async def watched_step(scene: Scene, case: Case) -> None:
    """One step; whoever is started by it must have been free to be."""
    before, nodes = await scene.in_flight(), await scene.kube.list(NODES)
    failures = sum(failed(task) for task in await scene.kube.list(TASKS))
    upgrade = await scene.upgrade()
    braked, approved = upgrade.paused_by_annotation, bool(upgrade.approvals)
    await scene.step()
    after = await scene.in_flight()
    started = set(after) - set(before)
    if not started:
        return
    assert len(after) <= case.concurrent
    assert failures < case.threshold
    assert not braked
    zones = [node["metadata"]["labels"]["zone"] for node in nodes if node["metadata"]["name"] in after]
    assert max(map(zones.count, zones)) <= case.per_zone
    members = {task["metadata"]["name"] for task in await scene.kube.list(TASKS)}
    unavailable = {node["metadata"]["name"] for node in nodes if is_unavailable(node)} & members
    assert len(unavailable | set(after)) <= case.unavailable
    for name in started:
        wave = parse_task(await scene.kube.get(TASKS, name)).spec.wave
        assert wave == "first" or approved or not case.manual


async def befall(scene: Scene, case: Case, what: str, number: int) -> None:
    name = case.names[number % len(case.names)]
    upgrade: Any = {"metadata": {"annotations": {}}}
    match what:
        case "cordon" | "uncordon":
            await scene.kube.merge(NODES, name, {"spec": {"unschedulable": what == "cordon" or None}})
        case "sick" | "well":
            await set_ready(scene, name, ready=what == "well")
        case "pause" | "go on":
            upgrade["metadata"]["annotations"]["nodeupgrade.dev/pause"] = "true" if what == "pause" else None
        case "retry":
            upgrade["metadata"]["annotations"]["nodeupgrade.dev/retry"] = f"token-{number}"
        case "restart":
            scene.operator = scene.new_operator()
        case "drop task":
            await drop_waiting_task(scene, name)
    await scene.kube.merge(UPGRADES, "to-1-33", upgrade)


async def mend(scene: Scene, case: Case, attempt: int) -> None:
    """Faults stop: nodes are well and succeed, and people let the rollout go on."""
    scene.parts.clear()
    for name in case.names:
        node = await scene.kube.get(NODES, name)
        if name not in await scene.in_flight() and node["spec"].get("unschedulable"):
            await scene.kube.merge(NODES, name, {"spec": {"unschedulable": None}})
        await set_ready(scene, name, ready=True)
    annotations = {"pause": None, "approve": "second", "retry": f"mended-{attempt}"}
    patch = {"metadata": {"annotations": {f"nodeupgrade.dev/{key}": value for key, value in annotations.items()}}}
    await scene.kube.merge(UPGRADES, "to-1-33", patch)


async def drop_waiting_task(scene: Scene, name: str) -> None:
    try:
        task = parse_task(await scene.kube.get(TASKS, name))
    except NotFoundError:
        return
    if task.spec.action is TaskAction.WAIT:
        await scene.kube.delete(TASKS, name)


async def set_ready(scene: Scene, name: str, *, ready: bool) -> None:
    status = (await scene.kube.get(NODES, name))["status"]
    status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    await scene.kube.replace_status(NODES, name, status)


def failed(task: Json) -> bool:
    verdict = task["spec"].get("verdict", {})
    return verdict.get("runID") == task["spec"]["runID"] and verdict.get("outcome") in FAILED


def is_unavailable(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable")) or node["status"]["conditions"][0]["status"] != "True"
