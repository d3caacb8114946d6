"""What operator and agent may do by their manifests: everything they do, and nothing else."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import HookPhase, HookRun, UpgradeRef
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import (
    CRON_JOBS,
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    ForbiddenError,
    Resource,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.cluster.owner_changes import was_deleted, was_removed
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.fleet.hooks.jobs import read_hook_jobs, start_hook
from tests.builders.tasks import task_spec
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.test_kube_api import pod
from tests.scenario.rollout.harness import NAMESPACE, cron_job, upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

SECRETS = Resource("", "v1", "secrets", "Secret", NAMESPACE)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", NAMESPACE)
GUARD = "nodeupgrade-readiness-guard"


async def follow(kube: KubeClient, resource: Resource) -> None:
    """Begin to watch; silence means that one may."""
    (page,) = [page async for page in kube.pages(resource)][-1:]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            async with contextlib.aclosing(kube.watch(resource, resource_version=page.resource_version)) as events:
                async for _ in events:
                    return


async def test_the_operator_may_follow_what_it_follows(api_server: ApiServer) -> None:
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        for resource in (NODES, TASKS, UPGRADES, PODS.within(NAMESPACE)):
            await follow(operator, resource)
            await operator.check_access(resource)


async def test_whoever_may_not_follow_learns_it_at_once(api_server: ApiServer) -> None:
    async with KubeClient.open(api_server.kubeconfig("nobody")) as nobody:
        for resource in (NODES, TASKS, UPGRADES, PODS.within(NAMESPACE)):
            with pytest.raises(ForbiddenError):
                await nobody.check_access(resource)


async def test_the_operator_may_guard_nodes(api_server: ApiServer) -> None:
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        found = await operator.get(CONFIG_MAPS, GUARD)
        version = found["metadata"]["resourceVersion"]
        await operator.merge(CONFIG_MAPS, GUARD, {"data": {"rights": "now"}}, resource_version=version)
        await operator.merge(CONFIG_MAPS, GUARD, {"data": {"rights": None}})


async def test_the_operator_may_run_hooks(admin: KubeClient, api_server: ApiServer) -> None:
    await admin.create(CRON_JOBS.within(NAMESPACE), cron_job("rights"))
    task = parse_task(
        {"metadata": {"name": "hooks", "uid": "1", "resourceVersion": "1"}, "spec": to_json(task_spec("hooks"))}
    )
    task = replace(task, spec=replace(task.spec, upgrade_ref=UpgradeRef(name="hooks", uid=str(uuid.uuid4()))))
    hook = HookRun(phase=HookPhase.BEFORE, template="rights", timeout_seconds=60)
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        await start_hook(operator, NAMESPACE, task, hook)
        await start_hook(operator, NAMESPACE, task, hook)  # an operator that does not know that it is there
        [(found, job)] = (await read_hook_jobs(operator, NAMESPACE, task, [hook])).jobs.items()

    assert (found, job.result) == ((HookPhase.BEFORE, "rights"), None)


@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["kubectl apply", "on the server"])
async def test_installing_again_leaves_guarded_nodes_guarded(api_server: ApiServer, how: tuple[str, ...]) -> None:
    """On the server, with force, is how Argo CD and Flux apply."""
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        await operator.merge(CONFIG_MAPS, GUARD, {"data": {"again": "now"}})
        api_server.kubectl("apply", *how, "-f", str(ROOT / "manifests/readiness-guard.yaml"))
        assert (await operator.get(CONFIG_MAPS, GUARD))["data"] == {"again": "now"}
        await operator.merge(CONFIG_MAPS, GUARD, {"data": {"again": None}})


async def test_the_agent_may_follow_the_pods_of_its_node(api_server: ApiServer) -> None:
    async with KubeClient.open(api_server.kubeconfig("agent")) as agent:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                async with contextlib.aclosing(agent.watch_pods_on_node("rights")) as events:
                    async for _ in events:
                        return


@pytest.mark.parametrize(
    ("status", "how", "removed"),
    [
        ({"phase": "Running"}, ("--grace-period=0", "--force"), True),
        ({"phase": "Failed", "reason": "OutOfcpu"}, (), False),
    ],
    ids=["by force", "after a kubelet failed it"],
)
async def test_the_agent_learns_the_last_state_of_a_pod_that_is_removed_at_once(
    admin: KubeClient, api_server: ApiServer, status: Json, how: tuple[str, ...], removed: bool
) -> None:
    name = f"removed-{uuid.uuid4().hex[:12]}"
    pods = PODS.within("default")
    made = await admin.create(pods, pod(name, "default", node=name, app=name))
    await admin.replace_status(pods, name, status)
    api_server.kubectl("delete", "pod", name, *how)

    async with KubeClient.open(api_server.kubeconfig("agent")) as agent, asyncio.timeout(60):
        since = made["metadata"]["resourceVersion"]
        async with contextlib.aclosing(agent.watch_pods_on_node(name, resource_version=since)) as events:
            last = [event async for event in _until_deleted(events)][-1]

    assert last.body["metadata"]["uid"] == made["metadata"]["uid"]
    assert was_removed(parse_pod(last.body)) is removed


async def test_a_finalizer_keeps_a_failed_pod_without_a_grace_period(admin: KubeClient, api_server: ApiServer) -> None:
    """As that of a Job does. So it can be told from a pod that was deleted while it ran."""
    pods, name = PODS.within("default"), f"kept-{uuid.uuid4().hex[:12]}"
    made = pod(name, "default", node=name, app=name)
    made["metadata"]["finalizers"] = ["nodeupgrade.dev/a-test"]
    await admin.create(pods, made)
    await admin.replace_status(pods, name, {"phase": "Failed"})
    api_server.kubectl("delete", "pod", name, "--wait=false")

    kept = await admin.get(pods, name)
    await admin.merge(pods, name, {"metadata": {"finalizers": None}})

    assert parse_pod(kept).terminating
    assert kept["metadata"]["deletionGracePeriodSeconds"] == 0
    assert not was_deleted(parse_pod(kept))


async def _until_deleted(events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
    async for event in events:
        yield event
        if event.change is WatchEventType.DELETED:
            return


async def test_the_operator_may_nothing_else(admin: KubeClient, api_server: ApiServer) -> None:
    await admin.create(UPGRADES, upgrade_object("rights"))
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        forbidden: list[Coroutine[Any, Any, object]] = [
            follow(operator, PODS),
            operator.list(SECRETS),
            operator.list(CONFIG_MAPS),
            operator.get(CONFIG_MAPS, "kube-root-ca.crt"),
            operator.delete(CONFIG_MAPS, GUARD),
            operator.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rights"}}),
            operator.delete(NODES, "rights"),
            operator.create(UPGRADES, upgrade_object("rights-2")),
            operator.delete(UPGRADES, "rights"),
            operator.create(PODS.within("default"), pod("rights", "default", node="a", app="b")),
            operator.delete(PODS.within("default"), "rights"),
        ]
        for attempt in forbidden:
            with pytest.raises(ForbiddenError):
                await attempt
