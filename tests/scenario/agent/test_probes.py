"""What the numbers of one pod's probes do to the runs of its node: the API server takes any of 32 bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.cluster.kube_api import Keep, WatchEventType
from nodeupgrade.kubelet.probe_delay import LONGEST_EXPOSURE
from tests.doubles.node import pod_json
from tests.scenario.agent.guarded import Make, reported
from tests.scenario.agent.harness import World, make_world
from tests.scenario.agent.test_readiness import once_stopped

WEB = pod_json("web", "nginx")
HUGE = {"tcpSocket": {"port": 80}, "periodSeconds": 2**31 - 1, "successThreshold": 2**31 - 1}
DAILY = {"tcpSocket": {"port": 80}, "periodSeconds": 86400, "successThreshold": 1}
STARTUP = {"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 62, "successThreshold": 1}


def probed(name: str, probe: Json, kind: str = "readinessProbe") -> dict[str, Any]:
    pod = pod_json(name, "main")
    pod["spec"]["containers"][0][kind] = probe
    return pod


def shows(world: World, late: Json, when: Callable[[], bool]) -> None:
    """Have the API server show another pod from a moment on."""
    everything = world.kube.list_pods_on_node

    async def with_it(node: str, keep: Keep | None = None) -> list[dict[str, Any]]:
        return [*await everything(node, keep), *([reported(world, dict(late))] if when() else [])]

    world.kube.list_pods_on_node = with_it  # type: ignore[method-assign]


@pytest.mark.parametrize(("old", "new"), [("v1.30.14", "v1.33.13"), ("v1.33.13", "v1.35.1")])
async def test_a_pod_that_is_there_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    world = make_world(tmp_path, monkeypatch, old=old, new=new, pods=(WEB, probed("slow", HUGE)), manifests={})

    status = await world.serve()

    assert status.reason is not Reason.INTERNAL_ERROR, status.message
    if new == "v1.33.13":
        assert status.phase is TaskPhase.SUCCEEDED, status.message


async def test_one_that_comes_during_the_run_keeps_no_result_from_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, late = make_world(tmp_path, monkeypatch, pods=(WEB,)), probed("late", HUGE)
    world.hook = once_stopped(world, lambda: world.kube.report(reported(world, late), change=WatchEventType.ADDED))
    shows(world, late, lambda: world.stops > 0)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message


async def test_one_that_comes_before_the_guard_ends_no_agent(make_guarded: Make) -> None:
    world = make_guarded()
    shows(world, probed("late", HUGE), lambda: "write_plan done" in world.moments)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert status.guard.exposure_seconds == LONGEST_EXPOSURE.total_seconds()


def starting(world: World) -> Callable[[dict[str, Any]], None]:
    """Show the pod ``starts`` as one whose startup probe has yet to succeed."""

    def show(pod: dict[str, Any]) -> None:
        pod |= reported(world, pod)
        if pod["metadata"]["name"] == "starts":
            for each in pod["status"]["containerStatuses"]:
                each |= {"started": False, "ready": False}
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    return show


async def test_no_pod_is_refused_for_the_probe_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has more than ten minutes to start, and nobody watches for any longer."""
    pods = (probed("other", DAILY), probed("starts", STARTUP, "startupProbe"))
    world = make_world(tmp_path, monkeypatch, pods=pods, manifests={})
    world.kube.changed = starting(world)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message


async def test_nor_is_a_deadline_near_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = pod_json("ends", "main", restart_policy="Never")
    ends["spec"]["activeDeadlineSeconds"] = 10 * 3600
    world = make_world(tmp_path, monkeypatch, pods=(probed("other", DAILY), ends), manifests={})

    def show(pod: dict[str, Any]) -> None:
        pod |= reported(world, pod)
        pod["status"]["startTime"] = world.node.timeline.wall.strftime("%Y-%m-%dT%H:%M:%SZ")

    world.kube.changed = show

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert [h.detail for h in status.hazards if h.reason == Reason.POD_EXPECTED_TO_END] == []
