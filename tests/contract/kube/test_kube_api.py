"""What every implementation of the KubeApi port promises."""

import uuid
from datetime import UTC, datetime

import pytest

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.status import ContainerCounts, StepResult, StepStatus, TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import (
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    EVENTS,
    NODES,
    PODS,
    SERVICES,
    TASKS,
    UPGRADES,
    VALIDATING_WEBHOOKS,
    ConflictError,
    Event,
    NotFoundError,
    RejectedError,
)
from nodeupgrade.cluster.nodes import CORDON_MANAGER, view_node
from nodeupgrade.cluster.typed_objects import TypedKube, endpoints_kind
from nodeupgrade.fleet.cordons.cordons import cordon_patch
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.dependants import dependants
from nodeupgrade.node.checks.service_endpoints import answering
from tests.builders.tasks import task_object, task_spec
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import upgrade_object


@pytest.fixture
def name() -> str:
    """A name that no other test uses: the real API server outlives a test."""
    return f"it-{uuid.uuid4().hex[:12]}"


async def test_create_gives_identity_and_happens_once(kube: TypedKube, name: str) -> None:
    created = await kube.create(UPGRADES, upgrade_object(name))
    assert created["metadata"]["uid"]
    assert created["metadata"]["generation"] == 1
    assert (await kube.get(UPGRADES, name))["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError):
        await kube.create(UPGRADES, upgrade_object(name))


async def test_what_is_not_there_is_not_found(kube: TypedKube, name: str) -> None:
    with pytest.raises(NotFoundError):
        await kube.get(UPGRADES, name)
    with pytest.raises(NotFoundError):
        await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "b"}}})
    await kube.delete(UPGRADES, name)


async def test_merge_sets_and_removes(kube: TypedKube, name: str) -> None:
    await kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    cordoned = await kube.merge(
        NODES,
        name,
        {"metadata": {"annotations": {"nodeupgrade.dev/cordoned-by": "x"}}, "spec": {"unschedulable": True}},
    )
    assert cordoned["spec"]["unschedulable"] is True
    assert cordoned["metadata"]["annotations"]["nodeupgrade.dev/cordoned-by"] == "x"
    restored = await kube.merge(
        NODES,
        name,
        {"metadata": {"annotations": {"nodeupgrade.dev/cordoned-by": None}}, "spec": {"unschedulable": None}},
    )
    assert "unschedulable" not in restored["spec"]
    assert "nodeupgrade.dev/cordoned-by" not in restored["metadata"].get("annotations", {})


async def test_merge_records_who_wrote(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    for wave, who in (("canary", "kubectl-nodeupgrade"), ("canary,rest", "somebody-else")):
        annotations = {"nodeupgrade.dev/approve": wave}
        await kube.merge(UPGRADES, name, {"metadata": {"annotations": annotations}}, field_manager=who)
        approvals = parse_upgrade(await kube.get(UPGRADES, name)).approvals
        assert approvals == dict.fromkeys(wave.split(","), who)


async def test_who_has_cordoned_is_known_after_an_uncordon(kube: TypedKube, name: str) -> None:
    # With a label, as any kubelet registers: of an object that was created without a field, no managers are recorded.
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    await kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    upgrade = parse_upgrade(
        {**upgrade_object("rollout"), "metadata": {"name": "rollout", "uid": "x", "resourceVersion": "1"}}
    )
    ours = view_node(await kube.merge(NODES, name, cordon_patch(upgrade), field_manager=CORDON_MANAGER))
    assert ours.labels["nodeupgrade.dev/upgrade"] == "rollout"
    assert (ours.unschedulable, ours.cordoned_by, ours.stale_mark) == (True, "x", "")
    lifted = view_node(await kube.merge(NODES, name, {"spec": {"unschedulable": None}}, field_manager="kubectl"))
    assert (lifted.unschedulable, lifted.cordoned_by, lifted.stale_mark) == (False, "x", "x")
    again = view_node(await kube.merge(NODES, name, {"spec": {"unschedulable": True}}, field_manager="kubectl"))
    assert (again.unschedulable, again.cordoned_by, again.stale_mark) == (True, "", "x")
    restored = view_node(await kube.merge(NODES, name, cordon_patch(None), field_manager=CORDON_MANAGER))
    assert (restored.unschedulable, "nodeupgrade.dev/upgrade" in restored.labels) == (False, False)


async def test_dry_run_answers_and_changes_nothing(kube: TypedKube, name: str) -> None:
    before = await kube.create(UPGRADES, upgrade_object(name))
    version = before["metadata"]["resourceVersion"]
    patch = {"spec": {"action": "Pause"}}
    answer = await kube.merge(UPGRADES, name, patch, resource_version=version, dry_run=True)
    assert (answer["spec"]["action"], answer["metadata"]["generation"]) == ("Pause", 2)
    now = await kube.get(UPGRADES, name)
    assert now["metadata"]["resourceVersion"] == version
    await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ConflictError):
        await kube.merge(UPGRADES, name, patch, resource_version=version, dry_run=True)


async def test_a_create_can_be_tried_and_a_permission_be_asked_for(kube: TypedKube, name: str) -> None:
    assert isinstance(kube, InMemoryKube | KubeClient)
    assert (await kube.try_create(UPGRADES, upgrade_object(name)))["metadata"]["name"] == name
    with pytest.raises(NotFoundError):
        await kube.get(UPGRADES, name)
    metadata = {"name": name}
    with pytest.raises(RejectedError):
        await kube.try_create(TASKS, {"apiVersion": TASKS.api_version, "kind": TASKS.kind, "metadata": metadata})
    assert await kube.may("create", UPGRADES)
    assert await kube.may("get", PODS.within("default"))


async def test_stale_writes_change_nothing(kube: TypedKube, name: str) -> None:
    stale = (await kube.create(UPGRADES, upgrade_object(name)))["metadata"]["resourceVersion"]
    fresh = await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "b"}}}, resource_version=stale)
    with pytest.raises(ConflictError):
        await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "c"}}}, resource_version=stale)
    with pytest.raises(ConflictError):
        await kube.replace_status(UPGRADES, name, {"phase": "Running"}, resource_version=stale)
    now = await kube.get(UPGRADES, name)
    assert now["metadata"]["resourceVersion"] == fresh["metadata"]["resourceVersion"]
    await kube.replace_status(
        UPGRADES, name, {"phase": "Running"}, resource_version=fresh["metadata"]["resourceVersion"]
    )


async def test_status_and_spec_are_written_apart(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, {**upgrade_object(name), "status": {"phase": "Made up"}})
    assert (await kube.get(UPGRADES, name)).get("status", {}).get("phase") is None
    await kube.replace_status(UPGRADES, name, {"phase": "Running", "progress": "0/1"})
    await kube.merge(UPGRADES, name, {"spec": {"action": "Pause"}, "status": {"phase": "Made up"}})
    now = await kube.get(UPGRADES, name)
    assert (now["status"]["phase"], now["spec"]["action"]) == ("Running", "Pause")


@pytest.mark.parametrize(
    "status",
    [
        {"inFlight": [{"node": f"node-{i}"} for i in range(SLOTS + 1)]},
        {"inFlight": [{"node": "node-1"}, {"node": "node-1"}]},
        {"failures": [{"node": "node-1", "reason": "StepFailed", "message": "x" * 257}]},
        {"failures": [{"node": "node-1"}]},
        {"counts": {"total": "many"}},
        {"startedAt": "yesterday"},
    ],
    ids=["too many slots", "one slot twice", "long message", "no reason", "no number", "no time"],
)
async def test_a_status_that_does_not_fit_the_schema_is_rejected(kube: TypedKube, name: str, status: Json) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    with pytest.raises(RejectedError):
        await kube.replace_status(UPGRADES, name, status)
    assert (await kube.get(UPGRADES, name)).get("status", {}).keys() <= {"observedGeneration"}


@pytest.mark.parametrize(
    "change",
    [{"action": "Levitate"}, {"order": -1}, {"runID": ""}, {"wave": "w" * 64}, {"nodeName": "another"}],
    ids=lambda change: next(iter(change)),
)
async def test_a_task_that_does_not_fit_the_schema_is_rejected(kube: TypedKube, name: str, change: Json) -> None:
    body = {**task_object(name), "spec": to_json(task_spec(name))}
    with pytest.raises(RejectedError):
        await kube.create(TASKS, {**body, "spec": {**body["spec"], **change}})
    await kube.create(TASKS, body)
    with pytest.raises(RejectedError):
        await kube.merge(TASKS, name, {"spec": change})
    assert (await kube.get(TASKS, name))["spec"].items() >= body["spec"].items()


async def test_status_is_replaced_as_a_whole(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    await kube.replace_status(UPGRADES, name, {"phase": "Running", "skips": {"AlreadyAtTarget": 1}})
    await kube.replace_status(UPGRADES, name, {"progress": "1/1"})
    status = (await kube.get(UPGRADES, name))["status"]
    assert "phase" not in status
    assert "skips" not in status


async def test_generation_follows_the_spec_alone(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "b"}}})
    await kube.replace_status(UPGRADES, name, {"phase": "Running"})
    assert (await kube.get(UPGRADES, name))["metadata"]["generation"] == 1
    await kube.merge(UPGRADES, name, {"spec": {"action": "Pause"}})
    assert (await kube.get(UPGRADES, name))["metadata"]["generation"] == 2


async def test_unchanged_objects_keep_their_version(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    first = await kube.merge(UPGRADES, name, {"spec": {"action": "Pause"}})
    again = await kube.merge(UPGRADES, name, {"spec": {"action": "Pause"}})
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_lists_select_by_labels_fields_and_namespace(kube: TypedKube, name: str) -> None:
    await kube.create(PODS.within("default"), pod(name, "default", node=name, app=name))
    await kube.create(PODS.within("default"), pod(f"{name}-other", "default", node="other", app=name))
    await kube.create(PODS.within("nodeupgrade-system"), pod(name, "nodeupgrade-system", node=name, app="else"))
    on_node = await kube.list_pods_on_node(name)
    assert {body["metadata"]["namespace"] for body in on_node} == {"default", "nodeupgrade-system"}
    assert {(body["kind"], body["apiVersion"]) for body in on_node} == {("Pod", "v1")}
    labelled = await kube.list(PODS.within("default"), labels={"app": name})
    assert [body["metadata"]["name"] for body in labelled] == [name, f"{name}-other"]
    assert await kube.list(PODS.within("nodeupgrade-system"), labels={"app": name}) == []


async def test_services_come_with_who_answers_for_them(kube: TypedKube, name: str) -> None:
    metadata = {"name": name, "namespace": "default"}
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"port": 80}]}
    await kube.create(
        SERVICES.within("default"), {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": headless}
    )
    target = {"kind": "Pod", "name": f"{name}-0", "namespace": "default"}
    for each, labels in ((name, {"kubernetes.io/service-name": name}), (f"{name}-other", {})):
        body = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {"name": each, "namespace": "default", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": True}, "targetRef": target}],
        }
        await kube.create(ENDPOINT_SLICES.within("default"), body)
    await kube.create(
        SERVICES.within("nodeupgrade-system"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "nodeupgrade-system"},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        },
    )

    found = [body for body in await kube.list_services(["default"]) if body["metadata"]["name"].startswith(name)]

    assert [(body["kind"], body["metadata"]["namespace"]) for body in found] == [
        ("Service", "default"),
        ("EndpointSlice", "default"),
        ("EndpointSlice", "default"),
    ]
    assert answering(found) == {}
    assert answering(found[1:]) == {f"default/{name}": {f"default/{name}-0"}}
    both = await kube.list_services(["default", "nodeupgrade-system"])
    assert {body["metadata"]["namespace"] for body in both if body["metadata"]["name"] == name} == {
        "default",
        "nodeupgrade-system",
    }


async def test_what_depends_on_pods_is_read_with_its_kind(kube: TypedKube, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
    await kube.create(DISRUPTION_BUDGETS.within("default"), body)
    hook = {
        "name": f"{name}.example.org",
        "clientConfig": {"service": {"namespace": "default", "name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}],
    }
    webhooks = {
        "apiVersion": VALIDATING_WEBHOOKS.api_version, "kind": VALIDATING_WEBHOOKS.kind, "metadata": {"name": name},
        "webhooks": [hook],
    }  # fmt: skip
    await kube.create(VALIDATING_WEBHOOKS, webhooks)
    try:
        found = dependants(await kube.list_dependants(["default"]))
    finally:
        await kube.delete(VALIDATING_WEBHOOKS, name)

    (budget,) = (each for each in found.budgets if each.name == name)
    assert (budget.selects("default", {"app": name}), budget.selects("default", {})) == (True, False)
    assert (f"default/{name}", f"ValidatingWebhookConfiguration {name}") in found.callers


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ("v1.16.15", "v1/Endpoints"),
        ("v1.17.17", "v1/Endpoints"),
        ("v1.18.0", "discovery.k8s.io/v1beta1/EndpointSlice"),
        ("v1.20.15-gke.1", "discovery.k8s.io/v1beta1/EndpointSlice"),
        ("v1.21.0", "discovery.k8s.io/v1/EndpointSlice"),
    ],
)
def test_old_api_servers_keep_endpoints_elsewhere(server: str, asked: str) -> None:
    kind = endpoints_kind(server)
    assert f"{kind.api_version}/{kind.kind}" == asked


async def test_delete_means_one_very_object(kube: TypedKube, name: str) -> None:
    created = await kube.create(UPGRADES, upgrade_object(name))
    with pytest.raises(ConflictError):
        await kube.delete(UPGRADES, name, uid=str(uuid.uuid4()))
    read = {"uid": created["metadata"]["uid"], "resource_version": created["metadata"]["resourceVersion"]}
    changed = await kube.merge(UPGRADES, name, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ConflictError):
        await kube.delete(UPGRADES, name, **read)
    await kube.delete(UPGRADES, name, **read | {"resource_version": changed["metadata"]["resourceVersion"]})
    with pytest.raises(NotFoundError):
        await kube.get(UPGRADES, name)


async def test_finalizers_hold_a_deleted_object(kube: TypedKube, name: str) -> None:
    await kube.create(UPGRADES, upgrade_object(name))
    await kube.merge(UPGRADES, name, {"metadata": {"finalizers": ["nodeupgrade.dev/finish-in-flight"]}})
    await kube.delete(UPGRADES, name)
    assert "deletionTimestamp" in (await kube.get(UPGRADES, name))["metadata"]
    await kube.merge(UPGRADES, name, {"metadata": {"finalizers": []}})
    with pytest.raises(NotFoundError):
        await kube.get(UPGRADES, name)


async def test_repeated_events_are_counted(kube: TypedKube, name: str) -> None:
    regarding = await kube.create(UPGRADES, upgrade_object(name))
    for _ in range(3):
        await kube.emit_event(Event(regarding=regarding, reason=Reason.ADMITTED, message="node a takes a slot"))
    await kube.emit_event(Event(regarding=regarding, reason=Reason.ADMITTED, message="node b takes a slot"))
    recorded = await kube.list(EVENTS.within("default"))
    ours = [event for event in recorded if event["involvedObject"]["name"] == name]
    assert sorted(event["count"] for event in ours) == [1, 3]


async def test_version_is_one_we_can_read(kube: TypedKube) -> None:
    assert KubeletVersion.parse(await kube.server_version()).minor >= 15


async def test_task_is_read_as_it_was_written(kube: TypedKube, name: str) -> None:
    spec = task_spec(name)
    created = await kube.create(TASKS, {**task_object(name), "spec": to_json(spec)})
    task: Task = parse_task(created)
    assert task.spec == spec
    assert task.reported == TaskStatus(run_id="run-1")

    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    status = TaskStatus(
        run_id="run-1",
        phase=TaskPhase.RUNNING,
        reason=Reason.PROGRESSING,
        steps=(StepStatus(name="stop-kubelet", result=StepResult.DONE, started_at=moment),),
        containers=ContainerCounts(baseline=3, restarted_list=("default/a/b",)),
        started_at=moment,
    )
    assert (await kube.patch_task_status(name, status)).reported == status
    assert (await kube.get_task(name)).reported == status
    await kube.patch_task_status(name, TaskStatus(run_id="run-0"))
    assert (await kube.get_task(name)).reported == TaskStatus(run_id="run-1")


def pod(name: str, namespace: str, *, node: str, app: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}]},
    }
