"""The extension of Cluster API may do, by its manifests, what it does, and nothing else: on a real API server."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import RETRY_ANNOTATION
from nodeupgrade.capi.rollouts import ACCOUNT, NODE_LABEL, name_of, object_of
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, ForbiddenError, NotFoundError, RejectedError
from tests.builders.cluster_api import NEW, ROLLOUTS
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

MANIFEST = ROOT / "overlays/with-cluster-api/cluster-api.yaml"


@pytest.fixture
async def extension(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    api_server.kubectl("apply", "--filename", str(MANIFEST))
    async with KubeClient.open(api_server.kubeconfig(), impersonated=ACCOUNT) as kube:
        yield kube
    api_server.kubectl("delete", "--filename", str(MANIFEST))


OWNER: Json = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": "1"}
OWNED: Json = {"finalizers": ["karpenter.sh/termination"], "ownerReferences": [OWNER]}


@pytest.fixture(params=[OWNED, {}], ids=["with an owner", "without"])
async def node(admin: KubeClient, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = f"capi-{uuid.uuid4().hex[:8]}"
    metadata: Json = {"name": name, "labels": {"a": "b", "c": "d"}, "annotations": {"e": "f"}, **request.param}
    await admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    yield name
    await admin.merge(NODES, name, {"metadata": {"finalizers": None}})
    await admin.delete(NODES, name)


DENIED: tuple[Json, ...] = (
    {"metadata": {"labels": {"a": "x"}}},
    {"metadata": {"labels": {"a": None}}},
    {"metadata": {"labels": {"g": "x", NODE_LABEL: "x"}}},
    {"metadata": {"annotations": {"e": "x"}}},
    {"metadata": {"annotations": {"g": "x"}}},
    {"metadata": {"finalizers": ["a.example/x"]}},
    {"metadata": {"ownerReferences": [{**OWNER, "name": "nobody"}]}},
    {"spec": {"unschedulable": True}},
    {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
)


async def until_denied(kube: KubeClient, node: str) -> None:
    """A policy is in force some time after it was created."""
    for _ in range(60):
        try:
            await kube.merge(NODES, node, {"metadata": {"labels": {"probe": uuid.uuid4().hex[:8]}}})
        except RejectedError:
            return
        await asyncio.sleep(1)
    pytest.fail("the policy is not in force after a minute")


async def test_of_a_node_it_may_change_its_own_label_alone(extension: KubeClient, node: str) -> None:
    await until_denied(extension, node)
    owned = (await extension.get(NODES, node))["metadata"].keys() & OWNED.keys()
    emptied: list[Json] = [{"metadata": {field: None}} for field in owned]
    for patch in (*DENIED, *emptied):
        with pytest.raises(RejectedError, match=r"capi\.nodeupgrade\.dev/rollout"):
            await extension.merge(NODES, node, patch)
    for value in ("one", "two", None):
        await extension.merge(NODES, node, {"metadata": {"labels": {NODE_LABEL: value}}})


async def test_it_may_create_and_retry_a_rollout_and_read_verdicts(extension: KubeClient, admin: KubeClient) -> None:
    name = name_of("clusters", uuid.uuid4().hex, NEW)
    spec = ROLLOUTS.spec_of(name, NEW)
    assert spec is not None
    await extension.create(UPGRADES, object_of(name, "clusters/workers", spec))
    patch = {"metadata": {"annotations": {RETRY_ANNOTATION: "a"}}}
    assert (await extension.merge(UPGRADES, name, patch))["spec"]["nodes"]["membership"] == "Continuous"
    with pytest.raises(NotFoundError):
        await extension.get(TASKS, "none")
    with pytest.raises(ForbiddenError):
        await extension.delete(UPGRADES, name)
    with pytest.raises(ForbiddenError):
        await extension.list(NODES)
    with pytest.raises(ForbiddenError):
        await extension.list(PODS)
    await admin.delete(UPGRADES, name)
