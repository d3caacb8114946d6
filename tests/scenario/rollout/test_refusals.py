"""Bad input: a condition and an event with a fixed reason and a sentence that says what to do; node untouched."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import HOLD_ANNOTATION, SKIP_ANNOTATION
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.kube_api import CONFIGMAPS, EVENTS, NODES, PODS, TASKS, ForbiddenError, Resource
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import Scene

CHANGING = Reason.CONTROL_PLANE_VERSIONS_DIFFER
ARM = {"status": {"nodeInfo": {"architecture": "arm64"}}}
WINDOWS = {"status": {"nodeInfo": {"operatingSystem": "windows"}}}
IMAGE = {"artifact": {"image": {"ref": f"registry.example/kubelet@sha256:{'a' * 64}", "path": "/kubelet"}}}
UNKNOWN_RUNTIME = {"status": {"nodeInfo": {"containerRuntimeVersion": "rkt://1.30.0"}}}
SICK = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
CORDONED = {"spec": {"unschedulable": True}}
PRESSED = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]}}
SCALED_DOWN = {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}
HELD: Json = {"metadata": {"annotations": {HOLD_ANNOTATION: "true"}}}
SKIPPED: Json = {"metadata": {"annotations": {SKIP_ANNOTATION: "lent out"}}}
MAINTAINED = {
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DrainInProgress", "status": "True"}]}
}
REBOOTING = {"metadata": {"annotations": {"weave.works/kured-reboot-in-progress": "2026-01-01T00:00:00Z"}}}
TAINTED = {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}]}}


def affinity(*expressions: Json, field: str = "matchExpressions") -> Json:
    term = {"nodeSelectorTerms": [{field: list(expressions)}]}
    return {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}}}


# Name of the case: reason, then what differs in spec, API server version, Node and Pod.
CASES: dict[str, tuple[Reason, Json, str, Json, Json]] = {
    "unparsable version": (Reason.INVALID_SPEC, {"version": "latest"}, "v1.33.13", {}, {}),
    "unknown version": (Reason.UNSUPPORTED_VERSION, {"version": "v1.99.0"}, "v1.33.13", {}, {}),
    "two artifacts": (
        Reason.INVALID_SPEC,
        {
            "artifact": {
                "preStaged": {"linux-amd64": {"path": "/a", "sha256": "a" * 64}},
                "image": {"ref": "x", "path": "/a"},
            }
        },
        "v1.33.13",
        {},
        {},
    ),
    "selector that selects nothing by itself": (Reason.INVALID_SPEC, {"nodes": {"selector": {}}}, "v1.33.13", {}, {}),
    "selector that matches nothing": (
        Reason.NO_MATCHING_NODES,
        {"nodes": {"selector": {"matchLabels": {"pool": "none"}}}},
        "v1.33.13",
        {},
        {},
    ),
    "no such node": (Reason.NODE_NOT_FOUND, {"nodes": {"names": ["node-9"]}}, "v1.33.13", {}, {}),
    "version equal": (Reason.ALREADY_AT_TARGET, {"version": "v1.30.14"}, "v1.33.13", {}, {}),
    "downgrade": (Reason.DOWNGRADE_NOT_ALLOWED, {"version": "v1.29.0"}, "v1.33.13", {}, {}),
    "newer than the API server": (Reason.VERSION_SKEW, {}, "v1.32.0", {}, {}),
    "downgrade out of the supported skew": (
        Reason.VERSION_SKEW,
        {"version": "v1.29.0", "allowDowngrade": True},
        "v1.33.13",
        {},
        {},
    ),
    "runtime that is not supported": (Reason.UNSUPPORTED_RUNTIME, {}, "v1.33.13", UNKNOWN_RUNTIME, {}),
    "a place that is not allowed": (
        Reason.NOT_ALLOWED,
        {"artifact": {"preStaged": {"linux-amd64": {"path": "/tmp/kubelet", "sha256": "a" * 64}}}},
        "v1.33.13",
        {},
        {},
    ),
    "windows, and an image for every platform": (Reason.UNSUPPORTED_NODE, IMAGE, "v1.33.13", WINDOWS, {}),
    **{
        f"a kubelet that is part of {suffix}": (
            Reason.UNSUPPORTED_NODE,
            IMAGE,
            "v1.33.13",
            {"status": {"nodeInfo": {"kubeletVersion": f"v1.30.14{suffix}"}}},
            {},
        )
        for suffix in ("+k3s1", "+rke2r1", "+k0s")
    },
    **{
        f"a kubelet that is part of {image}": (
            Reason.UNSUPPORTED_NODE,
            IMAGE,
            "v1.33.13",
            {"status": {"nodeInfo": {"osImage": image}}},
            {},
        )
        for image in (
            *("Talos (v1.11.2)", "Bottlerocket OS 1.26.1 (aws-k8s-1.31)"),
            "Bottlerocket (EKS Auto, Standard) 2025.3.9 (aws-k8s-1.31)",
        )
    },
    "a kubelet that is part of a snap": (
        Reason.UNSUPPORTED_NODE,
        IMAGE,
        "v1.33.13",
        {"metadata": {"labels": {"microk8s.io/cluster": "true"}}},
        {},
    ),
    "a kubelet of OpenShift": (
        Reason.UNSUPPORTED_NODE,
        IMAGE,
        "v1.33.13",
        {"metadata": {"labels": {"node.openshift.io/os_id": "rhcos"}}},
        {},
    ),
    "source that is not listed": (Reason.SOURCE_VERSION_NOT_LISTED, {"fromVersions": ["v1.29"]}, "v1.33.13", {}, {}),
    "window that never opens": (
        Reason.WINDOW_NEVER_OPENS,
        {"blackouts": [{"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z"}]},
        "v1.33.13",
        {},
        {},
    ),
    "platform without artifact": (Reason.ARTIFACT_UNAVAILABLE, {}, "v1.33.13", ARM, {}),
    "node that is not Ready": (Reason.NODE_NOT_READY, {}, "v1.33.13", SICK, {}),
    "node that is short of disk space": (Reason.NODE_UNDER_PRESSURE, {}, "v1.33.13", PRESSED, {}),
    "node that an autoscaler removes": (Reason.CONFLICTING_NODE_OPERATION, {}, "v1.33.13", SCALED_DOWN, {}),
    "node that is maintained": (Reason.CONFLICTING_NODE_OPERATION, {}, "v1.33.13", MAINTAINED, {}),
    "node that kured reboots": (Reason.CONFLICTING_NODE_OPERATION, {}, "v1.33.13", REBOOTING, {}),
    "node that is held": (Reason.HELD_BY_ANNOTATION, {}, "v1.33.13", HELD, {}),
    "node that is to be skipped": (Reason.SKIPPED_BY_ANNOTATION, {}, "v1.33.13", SKIPPED, {}),
    "foreign cordon": (Reason.CORDONED_BY_OTHERS, {}, "v1.33.13", CORDONED, {}),
    "unknown version on the node": (
        Reason.UNSUPPORTED_VERSION,
        {},
        "v1.33.13",
        {"status": {"nodeInfo": {"kubeletVersion": "v1.4.0"}}},
        {},
    ),
    "node selector no longer met": (
        Reason.NODE_AFFINITY_NOT_MET,
        {},
        "v1.33.13",
        {},
        {"spec": {"nodeSelector": {"disk": "ssd"}}},
    ),
    "node affinity no longer met": (
        Reason.NODE_AFFINITY_NOT_MET,
        {},
        "v1.33.13",
        {},
        affinity({"key": "pool", "operator": "NotIn", "values": ["web"]}),
    ),
    "pod of another node by field": (
        Reason.NODE_AFFINITY_NOT_MET,
        {},
        "v1.33.13",
        {},
        affinity({"key": "metadata.name", "operator": "In", "values": ["node-1"]}, field="matchFields"),
    ),
    "no such check": (
        Reason.INVALID_SPEC,
        {"preflight": {"accept": ["placement_met"]}},
        "v1.33.13",
        {},
        {},
    ),
    "another check accepted": (
        Reason.TAINT_NOT_TOLERATED,
        {"preflight": {"accept": ["placements_are_met"]}},
        "v1.33.13",
        TAINTED,
        {},
    ),
    "taint not tolerated": (Reason.TAINT_NOT_TOLERATED, {}, "v1.33.13", TAINTED, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_refused_with_a_reason_and_untouched(case: tuple[Reason, Json, str, Json, Json]) -> None:
    reason, spec, server, node, pod = case
    scene = Scene(version=server)
    await scene.fleet.add_node("node-0", overrides=node)
    await scene.fleet.add_pod("web-0", "node-0", overrides=pod)
    before = await scene.node("node-0")
    await scene.apply(**spec)
    await scene.run(passes=10)

    assert await scene.node("node-0") == before
    assert [task["spec"]["action"] for task in await scene.kube.list(TASKS)] in ([], ["Wait"])
    status = (await scene.upgrade()).status
    assert status.observed_generation == 1
    told = {condition.reason: condition.message for condition in status.conditions}
    assert reason in {*told, *(status.skips or {})}
    found = [event for event in await scene.kube.list(EVENTS.within("default")) if event["reason"] == reason]
    assert len(found) == 1
    assert found[0]["count"] == 1
    remedy = reason.remedy
    assert remedy == "nothing to do" or remedy in (told.get(reason) or found[0]["message"])


PLACED: dict[str, tuple[Json, Json]] = {
    "node selector": ({}, {"spec": {"nodeSelector": {"pool": "web"}}}),
    "In": ({}, affinity({"key": "pool", "operator": "In", "values": ["db", "web"]})),
    "NotIn a label that is absent": ({}, affinity({"key": "zone", "operator": "NotIn", "values": ["a"]})),
    "Exists": ({}, affinity({"key": "pool", "operator": "Exists"})),
    "DoesNotExist": ({}, affinity({"key": "zone", "operator": "DoesNotExist"})),
    "Gt": ({"metadata": {"labels": {"cpus": "9"}}}, affinity({"key": "cpus", "operator": "Gt", "values": ["8"]})),
    "Lt": ({"metadata": {"labels": {"cpus": "7"}}}, affinity({"key": "cpus", "operator": "Lt", "values": ["8"]})),
    "own node by field": (
        {},
        affinity({"key": "metadata.name", "operator": "In", "values": ["node-0"]}, field="matchFields"),
    ),
    "tolerated by comparison, for all that is known": (
        {"spec": {"taints": [{"key": "wear", "value": "6", "effect": "NoExecute"}]}},
        {"spec": {"tolerations": [{"key": "wear", "operator": "Gt", "value": "5"}]}},
    ),
    "tolerated by effect": (TAINTED, {"spec": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}}),
    "tolerated by value": (TAINTED, {"spec": {"tolerations": [{"key": "gpu", "operator": "Equal", "value": ""}]}}),
    "static pod and taint": (TAINTED, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}),
    "finished pod": ({}, {"spec": {"nodeSelector": {"disk": "ssd"}}, "status": {"phase": "Succeeded"}}),
}


@pytest.mark.parametrize("case", PLACED.values(), ids=PLACED.keys())
async def test_pods_that_still_fit_hinder_nobody(case: tuple[Json, Json]) -> None:
    node, pod = case
    scene = Scene()
    await scene.fleet.add_node("node-0", overrides=node)
    await scene.fleet.add_pod("web-0", "node-0", overrides=pod)
    await scene.apply()
    await scene.run()
    assert (await scene.upgrade()).status.phase == "Succeeded"


@pytest.mark.parametrize(
    ("server", "node", "spec", "phase"),
    [
        pytest.param("v1.33.13", "v1.15.0", {"version": "v1.17.17"}, "Succeeded", id="nearer but still too old"),
        pytest.param("v1.32.0", "v1.30.14", {"skewPolicy": "Warn"}, "Succeeded", id="newer, only a warning asked for"),
        pytest.param("v1.33.13", "v1.30.14", {"version": "v1.30.15"}, "Succeeded", id="a patch release"),
        pytest.param("v1.33.0", "v1.30.14", {}, "Succeeded", id="a newer patch than the API server's"),
        pytest.param(
            "v1.27.0", "v1.26.0", {"version": "v1.24.17", "allowDowngrade": True}, "Stalled", id="1.24 under 1.27"
        ),
        pytest.param(
            "v1.28.0", "v1.26.0", {"version": "v1.25.16", "allowDowngrade": True}, "Succeeded", id="1.25 under 1.28"
        ),
    ],
)
async def test_skew(server: str, node: str, spec: dict[str, Any], phase: str) -> None:
    scene = Scene(version=server)
    await scene.fleet.add_node("node-0", version=node)
    await scene.apply(**spec)
    await scene.run(passes=40)
    assert (await scene.upgrade()).status.phase == phase


BACK: Json = {"allowDowngrade": True, "skewPolicy": "Warn"}


@pytest.mark.parametrize(
    ("server", "node", "spec", "without"),
    [
        pytest.param("v1.33.13", "v1.9.11", {"version": "v1.17.17"}, "v1.9.11", id="it never had one"),
        pytest.param("v1.21.0", "v1.11.10", {"version": "v1.12.10"}, "v1.11.10", id="the last such pair"),
        pytest.param("v1.33.13", "v1.12.10", {"version": "v1.9.11", **BACK}, "v1.9.11", id="it would lose its own"),
        pytest.param("v1.20.15", "v1.9.11", {"version": "v1.17.17"}, None, id="from a Secret"),
        pytest.param("v1.33.13", "v1.12.10", {"version": "v1.17.17"}, None, id="both kubelets ask"),
        pytest.param(
            "v1.33.13",
            "v1.9.11",
            {"version": "v1.17.17", "preflight": {"accept": ["tokens_are_requested"]}},
            None,
            id="something else gives it one",
        ),
    ],
)
async def test_no_node_on_which_an_agent_has_no_token(
    server: str, node: str, spec: dict[str, Any], without: str | None
) -> None:
    scene = Scene(version=server)
    await scene.fleet.add_node("node-0", version=node)
    await scene.apply(**spec)
    await scene.run(passes=40)

    events = await scene.kube.list(EVENTS.within("default"))
    said = [event["message"] for event in events if event["reason"] == Reason.TOKENS_NOT_REQUESTED]
    phase = (await scene.upgrade()).status.phase
    assert (phase, len(said)) == (("Succeeded", 0) if without is None else ("Stalled", 1))
    assert without is None or f"kubelet {without} does not request tokens" in said[0]


async def test_an_accepted_check_is_a_warning_of_which_everybody_is_told() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("web-0", "node-0", overrides={"spec": {"nodeSelector": {"disk": "ssd"}}})
    await scene.apply(preflight={"accept": ["placements_are_met", "pods_fit"]})
    while not (tasks := await scene.kube.list(TASKS)) or tasks[0].get("status", {}).get("phase") != "Running":
        await scene.step()
    assert tasks[0]["spec"]["preflight"] == {"accept": ["placements_are_met", "pods_fit"]}
    found = [
        {"reason": "NodeAffinityNotMet", "check": "placements_are_met", "warning": True, "accepted": True},
        {"reason": "ReadinessProbeFailing", "check": "readiness_probes_succeed", "warning": True},
    ]
    await scene.kube.replace_status(TASKS, "node-0", {**tasks[0]["status"], "hazards": found})
    await scene.run()

    status = (await scene.upgrade()).status
    assert (status.phase, status.accepted) == ("Succeeded", {"placements_are_met": 1})
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    assert ready.message == "1 of 1 node runs v1.33.13 (accepted in spite of: placements_are_met on 1 node)"
    assert any("(NodeAffinityNotMet: pod default/web-0 on node node-0" in line for line in scene.story)


async def test_refused_node_is_taken_up_as_soon_as_the_cause_is_gone() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0", overrides=TAINTED)
    await scene.fleet.add_pod("web-0", "node-0")
    await scene.apply()
    await scene.run(passes=6)
    assert (await scene.upgrade()).status.phase == "Stalled"
    await scene.kube.merge(NODES, "node-0", {"spec": {"taints": None}})
    await scene.run()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_two_rollouts_never_hold_one_node() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply("first")
    await scene.apply("second", version="v1.32.0")
    for _ in range(40):
        await scene.step("first")
        await scene.step("second")
    first, second = await scene.upgrade("first"), await scene.upgrade("second")
    assert first.status.phase == "Succeeded"
    assert {c.reason for c in second.status.conditions if c.type == "Ready"} == {Reason.DOWNGRADE_NOT_ALLOWED}


async def test_nodes_wait_until_all_api_servers_are_of_one_minor() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    servers = PODS.within("kube-system")
    for name, tag in (("a", "v1.33.13"), ("b", "v1.32.9"), ("c", "unknown"), ("d", "v1.33.1@sha256:0")):
        image = f"registry.k8s.io:5000/kube-apiserver:{tag}"
        body = {
            "metadata": {"name": f"kube-apiserver-{name}", "labels": {"component": "kube-apiserver"}},
            "spec": {"containers": [{"name": "kube-apiserver", "image": image}, {"name": "side", "image": "a:v1.1.0"}]},
        }
        await scene.kube.create(servers, body)
    await scene.apply()
    await scene.run(passes=10)
    (told,) = [e["message"] for e in await scene.kube.list(EVENTS.within("default")) if e["reason"] == CHANGING]
    assert "v1.32.9, v1.33.1" in told
    assert [task["spec"]["action"] for task in await scene.kube.list(TASKS)] in ([], ["Wait"])

    await scene.kube.delete(servers, "kube-apiserver-b")
    await scene.run()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_no_node_is_cordoned_while_a_descheduler_would_evict_its_pods() -> None:
    policy = "{kind: DeschedulerPolicy, strategies: {RemovePodsViolatingNodeTaints: {enabled: true%s}}}"
    harmless = policy % ", params: {excludedTaints: [node.kubernetes.io/unschedulable]}"
    scene, place = Scene(), CONFIGMAPS.within("kube-system")
    await scene.fleet.add_node("node-0")
    await scene.kube.create(place, {"metadata": {"name": "descheduler"}, "data": {"policy.yaml": policy % ""}})
    await scene.apply()
    await scene.run(passes=10)
    told = [e["message"] for e in await scene.kube.list(EVENTS.within("default"))]
    assert any("excludedTaints: [node.kubernetes.io/unschedulable]" in message for message in told), told
    assert not (await scene.kube.get(NODES, "node-0"))["spec"].get("unschedulable")

    await scene.kube.merge(place, "descheduler", {"data": {"policy.yaml": harmless}})
    scene.operator = scene.new_operator()  # what it knows is recent
    await scene.run()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_a_pod_that_any_tenant_may_create_stops_no_rollout_by_calling_itself_a_descheduler() -> None:
    body: Json = {
        "metadata": {"name": "x", "namespace": "tenant-7", "labels": {"app": "descheduler"}},
        "spec": {"containers": [{"name": "x", "image": "busybox"}], "nodeName": "elsewhere"},
    }
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.kube.create(PODS.within("tenant-7"), body)
    await scene.apply()
    await scene.run()

    assert (await scene.upgrade()).status.phase == "Succeeded"
    (admitted,) = [line for line in scene.story if line.startswith("Admit ")]
    assert Reason.DESCHEDULER_EVICTS in admitted


@pytest.mark.parametrize("lost", [False, True], ids=["", "its task is deleted in mid-run"])
async def test_without_a_cordon_neither_a_descheduler_nor_load_balancers_matter(lost: bool) -> None:
    policy = "{kind: DeschedulerPolicy, strategies: {RemovePodsViolatingNodeTaints: {enabled: true}}}"
    scene = Scene(version="v1.18.20")
    await scene.fleet.add_node("node-0", version="v1.17.17")
    place = CONFIGMAPS.within("kube-system")
    await scene.kube.create(place, {"metadata": {"name": "descheduler"}, "data": {"policy.yaml": policy}})
    await scene.apply(version="v1.18.20", nodes={"all": True, "cordon": False})
    for number in range(60):
        await scene.run(passes=1)
        assert not (await scene.kube.get(NODES, "node-0"))["spec"].get("unschedulable")
        if lost and number == 8:
            await scene.kube.delete(TASKS, "node-0")

    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert not any(Reason.CORDON_REMOVES_TRAFFIC in line for line in scene.story)


async def test_who_may_not_see_the_api_servers_plans_without_them() -> None:
    class Closed(InMemoryKube):
        async def list(self, resource: Resource, **asked: Any) -> list[Json]:
            if resource.namespace == "kube-system":
                raise ForbiddenError("not here")
            return await super().list(resource, **asked)

    scene = Scene(kube_type=Closed)
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.run()
    assert (await scene.upgrade()).status.phase == "Succeeded"


@pytest.mark.parametrize(("server", "warned"), [("v1.18.20", True), ("v1.19.0", False)])
async def test_a_cordon_that_costs_traffic_is_told(server: str, warned: bool) -> None:
    scene = Scene(version=server)
    await scene.fleet.add_node("node-0", version="v1.17.17")
    await scene.apply(version="v1.18.20")
    await scene.run()
    (admitted,) = [line for line in scene.story if line.startswith("Admit ")]
    assert (Reason.CORDON_REMOVES_TRAFFIC in admitted) is warned


@pytest.mark.parametrize(
    ("target", "labels", "warned"),
    [
        ("v1.32.1", {"longhorn.io/component": "instance-manager"}, True),
        ("v1.32.1", {}, False),
        ("v1.35.1", {"longhorn.io/component": "instance-manager"}, False),
    ],
)
async def test_longhorn_is_named_where_no_guard_can_be(target: str, labels: Json, warned: bool) -> None:
    scene = Scene(version="v1.35.1")
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("manager-0", "node-0", overrides={"metadata": {"labels": labels}})
    await scene.apply(version=target)
    await scene.run()
    (admitted,) = [line for line in scene.story if line.startswith("Admit ")]
    assert (Reason.ENDPOINTS_WOULD_BE_LOST in admitted) is warned
