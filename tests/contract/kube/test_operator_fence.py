"""Only the pod that holds the Lease writes: a real API server compares every write with it, late ones included."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import CONFIGMAPS, FENCE, JOBS, LEASES, NODES, PODS, TASKS, UPGRADES, NotLeadingError
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME, Elector
from tests.builders.tasks import task_object, task_spec
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.test_kube_api import pod
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import NAMESPACE, cron_job, upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

HERE, AGENTS = LEASES.within(NAMESPACE), PODS.within(NAMESPACE)
Write: TypeAlias = Callable[[KubeClient, str], Coroutine[Any, Any, object]]
ANNOTATED: Json = {"metadata": {"annotations": {"nodeupgrade.dev/test": "late"}}}


def claim(name: str) -> Json:
    return {**task_object(name), "spec": to_json(task_spec(name))}


def job(name: str) -> Json:
    return {"metadata": {"name": name}, **cron_job(name)["spec"]["jobTemplate"]}


WRITES: dict[str, Write] = {
    "admit": lambda kube, name: kube.replace_status(UPGRADES, name, {"inFlight": [{"node": name}]}),
    "finalizer": lambda kube, name: kube.merge(UPGRADES, name, {"metadata": {"finalizers": ["example.com/late"]}}),
    "claim": lambda kube, name: kube.create(TASKS, claim(f"{name}-claimed")),
    "start": lambda kube, name: kube.merge(TASKS, name, {"spec": {"action": "Upgrade", "runID": "late"}}),
    "give up": lambda kube, name: kube.replace_status(TASKS, name, {"runID": "late", "phase": "Failed"}),
    "drop": lambda kube, name: kube.delete(TASKS, name),
    "cordon": lambda kube, name: kube.merge(NODES, name, {"spec": {"unschedulable": True}}),
    "create an agent": lambda kube, name: kube.create(
        PODS.within(NAMESPACE), pod(name, NAMESPACE, node=name, app=name)
    ),
    "delete an agent": lambda kube, name: kube.delete(PODS.within(NAMESPACE), f"{name}-agent"),
    "start a hook": lambda kube, name: kube.create(JOBS.within(NAMESPACE), job(name)),
    "guard": lambda kube, _: kube.merge(CONFIGMAPS.within(NAMESPACE), "nodeupgrade-readiness-guard", ANNOTATED),
}


class Replicas:
    """Two pods of the operator."""

    def __init__(self, mark: str, first: KubeClient, second: KubeClient) -> None:
        self.first, self.second = first, second
        self.names = f"operator-{mark}-1", f"operator-{mark}-2"

    def candidate(self, which: int) -> Elector:
        kube = (self.first, self.second)[which]
        return Elector(kube, NAMESPACE, f"{self.names[which]}_{uuid.uuid4().hex[:12]}")


@pytest.fixture
async def replicas(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[Replicas]:
    mark = uuid.uuid4().hex[:8]
    await admin.merge(HERE, LEASE_NAME, {"spec": {"holderIdentity": ""}})
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                KubeClient.open(api_server.operator_kubeconfig(f"operator-{mark}-{number}"))
            )
            for number in (1, 2)
        ]
        yield Replicas(mark, *clients)
    await admin.merge(HERE, LEASE_NAME, {"spec": {"holderIdentity": ""}})


async def staged(admin: KubeClient, name: str) -> None:
    """What the writes are about."""
    await admin.create(UPGRADES, upgrade_object(name))
    await admin.create(NODES, node_object(name, "v1.30.14"))
    await admin.create(TASKS, claim(name))
    await admin.create(AGENTS, pod(f"{name}-agent", NAMESPACE, node=name, app=name))


async def takes_effect(candidate: Elector, probe: Write, kube: KubeClient) -> None:
    """Lead, and wait until the API server has heard of it: it keeps a cache of Leases."""
    await asyncio.wait_for(candidate.campaign(), 60)
    await until_allowed(probe, kube)


async def for_ever(write: Write, kube: KubeClient) -> None:
    async with asyncio.timeout(60):
        while True:
            await write(kube, "")


async def until_allowed(probe: Write, kube: KubeClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await probe(kube, "")
            except NotLeadingError:
                await asyncio.sleep(0.05)
            else:
                return


def guarding(kube: KubeClient, _: str) -> Coroutine[Any, Any, object]:
    return WRITES["guard"](kube, "")


@pytest.mark.parametrize("what", WRITES)
async def test_a_former_leader_writes_nothing(admin: KubeClient, replicas: Replicas, what: str) -> None:
    """It was paused with the write in its hand, and wakes when another one leads: no precondition but the Lease."""
    name = f"fence-{uuid.uuid4().hex[:8]}"
    await staged(admin, name)
    first, second = replicas.candidate(0), replicas.candidate(1)
    await takes_effect(first, guarding, replicas.first)
    await first.release()
    await takes_effect(second, guarding, replicas.second)
    with pytest.raises(NotLeadingError, match=f"{replicas.names[0]} does not lead, {second._identity} does"):
        await WRITES[what](replicas.first, name)
    await WRITES[what](replicas.second, name)  # the control: it was the Lease that was in the way


async def test_without_a_lease_the_fence_is_open_and_is_in_nobodys_way(admin: KubeClient, replicas: Replicas) -> None:
    """API servers look for the Lease before they look who writes: a fence that is closed then is closed for all."""
    name = f"fence-{uuid.uuid4().hex[:8]}"
    leader = replicas.candidate(0)
    await takes_effect(leader, guarding, replicas.first)
    await admin.delete(HERE, LEASE_NAME)
    await until_allowed(guarding, replicas.second)
    await staged(admin, name)
    for kind, named in ((NODES, name), (AGENTS, f"{name}-agent")):
        await admin.merge(kind, named, ANNOTATED)
        await admin.delete(kind, named)
    keeping = asyncio.ensure_future(leader.keep())
    async with asyncio.timeout(60):
        while (await admin.list(HERE)) == []:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)
    assert leader.may_write(), "it has made the Lease again"
    with pytest.raises(NotLeadingError):
        await for_ever(guarding, replicas.second)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_person_with_the_operators_account_is_not_concerned(api_server: ApiServer, replicas: Replicas) -> None:
    await takes_effect(replicas.candidate(0), guarding, replicas.first)
    async with KubeClient.open(api_server.kubeconfig("operator")) as person:
        await guarding(person, "")


def test_the_client_knows_the_policy_by_its_name() -> None:
    assert f"name: {FENCE}\n" in (ROOT / "manifests/operator-fence.yaml").read_text()
