"""What an agent finds out about the clients of a node's pods, and that whoever asks is told of it to the end."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.api.task.spec import GuardGrant, TaskAction
from nodeupgrade.api.task.status import ReportedHazard, TaskPhase
from nodeupgrade.cluster.kube_api import ForbiddenError
from nodeupgrade.kubelethash import HashValue
from tests.doubles.node import pod_json
from tests.scenario.agent.harness import Killed, World, make_world, untouched

SLICE = {
    "kind": "EndpointSlice",
    "metadata": {"namespace": "default", "name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
    "endpoints": [{"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "web"}}],
}
DESERTED = "Service default/web has no other ready endpoint than default/web: it would have none for up to 26 s"


def probed(kind: str) -> Json:
    pod = pod_json("web", "nginx")
    (container,) = pod["spec"]["containers"]
    container[kind] = {"tcpSocket": {"port": 80}}
    return pod


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node with a pod that alone answers for a Service."""
    made = make_world(tmp_path, monkeypatch, pods=(probed("readinessProbe"),), manifests={})
    made.kube.services = [SLICE]

    def show_ready(pod: dict[str, Any]) -> None:
        now = {"state": {"running": {}}, "started": True, "ready": True}
        shown = [
            {"name": c.name, "containerID": f"containerd://{c.id}", **now}
            for c in made.node.inventory().running()
            if c.pod.name == pod["metadata"]["name"]
        ]
        pod["status"] = {
            **pod.get("status", {}),
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": shown,
        }

    made.kube.changed = show_ready
    return made


def told(world: World) -> list[tuple[str, bool, str]]:
    return [(hazard.reason, hazard.warning, hazard.detail.partition(",")[0]) for hazard in world.status.hazards]


async def test_without_a_guard_the_run_goes_on_and_every_status_of_it_warns(world: World) -> None:
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert told(world) == [(Reason.ENDPOINTS_WOULD_BE_LOST, True, DESERTED)]
    begun = [s for s in world.kube.statuses if s.phase not in {TaskPhase.STAGING, TaskPhase.PRECHECKING}]
    assert {s.hazards for s in begun} == {status.hazards}
    assert world.kube.asked_about == ["default"]
    assert world.restarted == []


async def test_the_next_agent_warns_as_the_lost_one_did(world: World) -> None:
    def die_once_the_kubelet_is_down(_moment: str) -> None:
        if world.stops:
            raise Killed

    world.hook = die_once_the_kubelet_is_down
    with pytest.raises(Killed):
        await world.serve()
    world.hook, world.kube.services = lambda _moment: None, []

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert told(world) == [(Reason.ENDPOINTS_WOULD_BE_LOST, True, DESERTED)]


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
async def test_a_refused_node_is_warned_of_as_well(world: World, action: TaskAction) -> None:
    (container,) = world.node.runtime.containers
    world.node.runtime.serve(container, HashValue("bad"))
    world.kube.wish(action=action)

    assert (await world.serve()).phase is TaskPhase.REFUSED
    assert [(reason, warning) for reason, warning, _ in told(world)][1:] == [(Reason.ENDPOINTS_WOULD_BE_LOST, True)]


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
async def test_what_requires_a_guard_refuses_to_go_without(world: World, action: TaskAction) -> None:
    world.kube.wish(
        action=action, verify=VerifySettings(settle=timedelta(seconds=2), readiness_guard=GuardPolicy.REQUIRE)
    )

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ENDPOINTS_WOULD_BE_LOST)
    assert told(world) == [(Reason.ENDPOINTS_WOULD_BE_LOST, False, DESERTED)]
    assert untouched(world)


@pytest.mark.parametrize(
    "wish",
    [
        {"verify": VerifySettings(settle=timedelta(seconds=2), readiness_guard=GuardPolicy.OFF)},
        {"guard": GuardGrant(wanted=True)},
    ],
    ids=["nobody asks", "guarded"],
)
async def test_services_are_read_only_where_they_would_lose_somebody(world: World, wish: dict[str, Any]) -> None:
    world.kube.wish(action=TaskAction.PRECHECK, **wish)

    assert (await world.serve()).phase is TaskPhase.PRECHECKED
    assert (world.kube.asked_about, world.status.hazards) == ([], ())


async def test_a_plan_warns_as_a_run_does(world: World) -> None:
    world.kube.wish(action=TaskAction.PRECHECK)

    status = await world.serve()

    assert status.phase is TaskPhase.PRECHECKED
    assert status.message.endswith("; 1 warning, see hazards")
    assert told(world) == [(Reason.ENDPOINTS_WOULD_BE_LOST, True, DESERTED)]


async def test_an_agent_that_may_not_read_services_says_so_and_goes_on(world: World) -> None:
    def forbidden(moment: str) -> None:
        if moment == "list_services":
            raise ForbiddenError("endpointslices is forbidden")

    world.hook = forbidden

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    unread = "it is unknown whether Services lose their last endpoint: endpointslices is forbidden"
    check = "clients_notice_nothing"
    assert status.hazards == (
        ReportedHazard(reason=Reason.SERVICES_NOT_READABLE, check=check, detail=unread, warning=True),
    )
    assert world.restarted == []


async def test_what_else_depends_on_the_pods_is_told(world: World) -> None:
    (pod,) = [pod for pod in world.node.kubelet.pods if pod.ref.name == "web"]
    world.kube.dependants = [
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": pod.ref.namespace, "name": "web"},
            "spec": {"selector": {}}, "status": {"disruptionsAllowed": 0},
        },
    ]  # fmt: skip

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert "PodDisruptionBudget default/web allows 0 disruptions now" in [detail for *_, detail in told(world)]


async def test_an_agent_that_may_not_read_what_depends_on_pods_says_so_and_goes_on(world: World) -> None:
    def forbidden(moment: str) -> None:
        if moment == "list_dependants":
            raise ForbiddenError("apiservices is forbidden")

    world.hook = forbidden

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    unread = "it is unknown whether budgets, webhooks or APIs depend on the pods: apiservices is forbidden"
    told = {hazard.detail for hazard in world.status.hazards if hazard.reason == Reason.SERVICES_NOT_READABLE}
    assert unread in told


@pytest.mark.parametrize("settle", [60, 2], ids=["settling", "until pods can have been probed"])
async def test_a_container_that_is_starting_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settle: int
) -> None:
    world = make_world(tmp_path, monkeypatch, pods=(probed("startupProbe"),), manifests={})
    (nginx,) = world.before.containers
    started = iter([False, False, True])

    def show_container(pod: dict[str, Any]) -> None:
        state = {"name": "nginx", "containerID": f"containerd://{nginx.id}", "state": {"running": {}}}
        pod["status"] = {"containerStatuses": [{**state, "started": next(started)}]}

    world.kube.changed = show_container
    world.kube.wish(action=TaskAction.PRECHECK, verify=VerifySettings(settle=timedelta(seconds=settle)))

    status = await world.serve()

    assert (status.phase, [hazard.reason for hazard in status.hazards]) == (
        TaskPhase.PRECHECKED,
        [Reason.STARTUP_PROBE_RUNS_AGAIN],
    )
    assert list(started) == []


async def test_an_endpoint_that_names_no_pod_fails_no_run(world: World) -> None:
    nameless = {"conditions": {"ready": True}, "addresses": ["10.1.2.3"], "targetRef": {"kind": "Pod"}}
    world.kube.services = [{**SLICE, "endpoints": [*SLICE["endpoints"], nameless]}]

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
