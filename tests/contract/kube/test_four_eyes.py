"""With overlays/with-four-eyes, a real API server lets nobody approve the NodeUpgrade that they have created."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, RETRY_ANNOTATION
from nodeupgrade.capi.rollouts import ACCOUNT, object_of
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import UPGRADES, ForbiddenError, Resource
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

POLICY = ROOT / "overlays/with-four-eyes/four-eyes.yaml"
CLUSTER_API = ROOT / "overlays/with-cluster-api/cluster-api.yaml"
CREATED_BY = "nodeupgrade.dev/created-by"
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
WAVES = [{"name": "canary", "size": 1}, {"name": "production", "size": "100%", "approval": "Manual"}]


@dataclass
class Person:
    """Somebody who may create and edit NodeUpgrades."""

    name: str
    kube: KubeClient

    async def create(self, annotations: dict[str, str] | None, **spec: Any) -> str:
        """Create a NodeUpgrade, and return its name."""
        body = upgrade_object(f"four-eyes-{uuid.uuid4().hex[:8]}", waves=WAVES, **spec)
        if annotations is not None:
            body["metadata"]["annotations"] = annotations
        return str((await self.kube.create(UPGRADES, body))["metadata"]["name"])

    async def create_as_they_should(self) -> str:
        return await self.create({CREATED_BY: self.name})

    async def annotate(self, name: str, **annotations: str | None) -> Json:
        return await self.kube.merge(UPGRADES, name, {"metadata": {"annotations": annotations}})

    async def approve(self, name: str, waves: str | None) -> Json:
        return await self.annotate(name, **{APPROVE_ANNOTATION: waves})

    async def approve_in_the_spec(self, name: str, *waves: str) -> Json:
        return await self.kube.merge(UPGRADES, name, {"spec": {"approvedWaves": list(waves)}})


@pytest.fixture
async def people(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[tuple[Person, Person]]:
    mark = uuid.uuid4().hex[:8]
    names = f"alice-{mark}", f"bob-{mark}"
    for name in names:
        subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": "nodeupgrade-edit-nodeupgrades", "apiGroup": "rbac.authorization.k8s.io"}
        await admin.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})
    config = api_server.kubeconfig()
    async with (
        KubeClient.open(config, impersonated=names[0]) as one,
        KubeClient.open(config, impersonated=names[1]) as two,
    ):
        yield Person(names[0], one), Person(names[1], two)
    for name in names:
        await admin.delete(BINDINGS, name)


@pytest.fixture
async def policy(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[None]:
    """In force for this test alone: other tests create NodeUpgrades as anybody."""
    api_server.kubectl("apply", "--filename", str(POLICY))
    await _until_in_force(admin, wanted=True)
    yield
    api_server.kubectl("delete", "--filename", str(POLICY))
    await _until_in_force(admin, wanted=False)


async def _until_in_force(admin: KubeClient, *, wanted: bool) -> None:
    async with asyncio.timeout(120):
        while await _is_in_force(admin) is not wanted:  # noqa: ASYNC110 - the API server tells nobody
            await asyncio.sleep(0.2)


async def _is_in_force(admin: KubeClient) -> bool:
    try:
        await admin.try_create(UPGRADES, upgrade_object("anybodys"))
    except ForbiddenError:
        return True
    return False


async def refused(asked: Any, because: str) -> None:
    with pytest.raises(ForbiddenError, match=because):
        await asked


@pytest.mark.usefixtures("policy")
async def test_a_nodeupgrade_says_truly_who_creates_it(people: tuple[Person, Person]) -> None:
    alice, bob = people
    own = f"set the annotation {CREATED_BY} to {alice.name}"
    await refused(alice.create(None), own)
    await refused(alice.create({}), own)
    await refused(alice.create({CREATED_BY: bob.name}), own)
    name = await alice.create_as_they_should()
    for person in people:
        for value in (bob.name, None, ""):
            await refused(person.annotate(name, **{CREATED_BY: value}), "cannot be changed; restore it")
    await alice.annotate(name, other="allowed")


@pytest.mark.usefixtures("policy")
async def test_who_creates_it_approves_nothing(people: tuple[Person, Person]) -> None:
    alice, _ = people
    own = {CREATED_BY: alice.name}
    for approved in ("production", " ,production"):
        await refused(alice.create({**own, APPROVE_ANNOTATION: approved}), "leave out spec.approvedWaves")
    await refused(alice.create(own, approvedWaves=["production"]), "leave out spec.approvedWaves")

    name = await alice.create({**own, APPROVE_ANNOTATION: " , "}, approvedWaves=[])
    never = f"{alice.name} has created this NodeUpgrade, so somebody else has to approve"
    await refused(alice.approve(name, "production"), never)
    await refused(alice.approve_in_the_spec(name, "production"), never)


@pytest.mark.usefixtures("policy")
async def test_somebody_else_approves_and_it_stays(people: tuple[Person, Person]) -> None:
    alice, bob = people
    name = await alice.create_as_they_should()
    await bob.approve(name, "production")
    await alice.annotate(name, **{"nodeupgrade.dev/pause": "true"})
    await alice.approve(name, " production ,")
    await refused(alice.approve(name, "production,remainder"), "somebody else has to approve")
    await alice.approve_in_the_spec(name, "production")  # it was approved, only elsewhere
    await refused(alice.approve_in_the_spec(name, "production", "remainder"), "somebody else has to approve")
    await alice.approve(name, None)
    approved = await bob.approve_in_the_spec(name, "production", "remainder")
    assert approved["spec"]["approvedWaves"] == ["production", "remainder"]


async def test_what_is_older_than_the_policy_can_be_approved_as_before(
    api_server: ApiServer, admin: KubeClient, people: tuple[Person, Person]
) -> None:
    alice, _ = people
    name = await alice.create(None)
    api_server.kubectl("apply", "--filename", str(POLICY))
    try:
        await _until_in_force(admin, wanted=True)
        await refused(alice.annotate(name, **{CREATED_BY: alice.name}), "cannot be changed")
        await alice.approve(name, "production")
    finally:
        api_server.kubectl("delete", "--filename", str(POLICY))
        await _until_in_force(admin, wanted=False)


@pytest.mark.usefixtures("policy")
async def test_the_operator_writes_as_before(api_server: ApiServer, people: tuple[Person, Person]) -> None:
    name = await people[0].create_as_they_should()
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        await operator.merge(UPGRADES, name, {"metadata": {"annotations": {"nodeupgrade.dev/epoch": "1-a"}}})
        await operator.replace_status(UPGRADES, name, {"phase": "Running"})


@pytest.mark.usefixtures("policy")
async def test_the_extension_of_cluster_api_creates_and_retries_as_before(
    api_server: ApiServer, people: tuple[Person, Person]
) -> None:
    name = f"four-eyes-{uuid.uuid4().hex[:8]}"
    api_server.kubectl("apply", "--filename", str(CLUSTER_API))
    try:
        async with KubeClient.open(api_server.kubeconfig(), impersonated=ACCOUNT) as extension:
            body = object_of(name, "clusters/workers", upgrade_object(name, waves=WAVES)["spec"])
            await extension.create(UPGRADES, body)
            await extension.merge(UPGRADES, name, {"metadata": {"annotations": {RETRY_ANNOTATION: "a"}}})
            patch = {"metadata": {"annotations": {APPROVE_ANNOTATION: "production"}}}
            await refused(extension.merge(UPGRADES, name, patch), f"{ACCOUNT} has created this NodeUpgrade")
        await people[0].approve(name, "production")
    finally:
        api_server.kubectl("delete", "--filename", str(CLUSTER_API))


async def test_nothing_is_asked_of_users_without_the_policy(people: tuple[Person, Person]) -> None:
    alice, _ = people
    name = await alice.create({APPROVE_ANNOTATION: "production"}, approvedWaves=["production"])
    await alice.approve(name, "production,remainder")
