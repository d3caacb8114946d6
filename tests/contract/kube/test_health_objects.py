"""Health checks about objects, on the double and on a real API server; and who may read what."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck
from nodeupgrade.api.upgrade.nodes import LabelSelector, Requirement
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import PODS, KubeApi
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.controlplane.wiring import HEALTH_READER
from nodeupgrade.fleet.health.checks import HealthObservation, HealthState
from nodeupgrade.fleet.health.probe import ClusterProbe
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_kube_api import pod
from tests.scenario.rollout.harness import NAMESPACE

READER = HEALTH_READER.format(namespace=NAMESPACE)


def now() -> datetime:
    return datetime.now(UTC)


async def observed(kube: KubeApi, expression: str = "true", **which: Any) -> HealthObservation:
    wanted = {"api_version": "v1", "resource": "pods", "namespace": "default", **which}
    objects = ClusterObjects(expression=expression, **wanted)
    check = HealthCheck(name="it", objects=objects, timeout=timedelta(seconds=60))
    return await ClusterProbe(kube, (), now).observe(check)


async def test_objects_are_judged_one_by_one(kube: TypedKube) -> None:
    app = f"health-{uuid.uuid4().hex[:12]}"
    for name in ("a", "b"):
        await kube.create(PODS.within("default"), pod(f"{app}-{name}", "default", node=name, app=app))
    labelled = LabelSelector(match_labels={"app": app})

    assert (await observed(kube, "object.spec.nodeName in ['a', 'b']", selector=labelled)).state is HealthState.HOLDING
    failing = await observed(kube, "object.spec.nodeName == 'a'", selector=labelled)
    assert failing.state is HealthState.FAILING
    assert failing.detail == f"object.spec.nodeName == 'a' is false for 1 of 2 objects: default/{app}-b"
    assert (await observed(kube, "object.spec.nodeName == 'a'", name=f"{app}-a")).state is HealthState.HOLDING
    expressed = LabelSelector(match_expressions=(Requirement(key="app", operator="In", values=(app,)),))
    assert (await observed(kube, "object.spec.nodeName == 'b'", selector=expressed)).state is HealthState.FAILING
    everywhere = await observed(kube, "object.metadata.namespace == 'default'", selector=labelled, namespace=None)
    assert everywhere.state is HealthState.HOLDING


async def test_nothing_to_judge_is_a_broken_check(kube: TypedKube) -> None:
    for which in ({"name": "nobody"}, {"selector": LabelSelector(match_labels={"app": "nobody"})}):
        nothing = await observed(kube, **which)
        assert nothing.state is HealthState.BROKEN, nothing
        assert "there " in nothing.detail


@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("resource", ["pod", "levitations"])
async def test_a_resource_that_does_not_exist_is_a_broken_check(admin: KubeClient, resource: str) -> None:
    missing = await observed(admin, resource=resource)
    assert (missing.state, missing.detail) == (HealthState.BROKEN, f"there is no {resource} (v1) in namespace default")


@asynccontextmanager
async def reading(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    """The operator, as it reads for health checks."""
    async with KubeClient.open(api_server.kubeconfig("operator"), impersonated=READER) as kube:
        yield kube


@pytest.mark.real
@pytest.mark.timeout(3600)
async def test_health_checks_may_read_nothing_but_what_they_are_given(admin: KubeClient, api_server: ApiServer) -> None:
    name = f"health-{uuid.uuid4().hex[:12]}"
    await admin.create(PODS.within("default"), pod(name, "default", node="a", app=name))
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        assert await operator.list(PODS.within("default"))  # the operator itself may

    async with reading(api_server) as kube:
        for resource, where in (
            ("pods", "default"),
            ("nodes", None),
            ("configmaps", NAMESPACE),
            ("secrets", NAMESPACE),
        ):
            refused = await observed(kube, resource=resource, namespace=where)
            assert refused.state is HealthState.BROKEN, (resource, refused)
            assert "nodeupgrade.dev/aggregate-to-health-checks" in refused.detail

        # No controller aggregates here: what one would do is done by hand.
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
        patch = json.dumps({"aggregationRule": None, "rules": rules})
        api_server.kubectl("patch", "clusterrole", "nodeupgrade-health-checks", "--type=merge", f"--patch={patch}")
        try:
            assert (await observed(kube, name=name)).state is HealthState.HOLDING
            assert (await observed(kube, resource="nodes", namespace=None)).state is HealthState.BROKEN
        finally:
            api_server.kubectl(
                "patch", "clusterrole", "nodeupgrade-health-checks", "--type=merge", '--patch={"rules":[]}'
            )


@pytest.mark.real
@pytest.mark.timeout(3600)
async def test_the_operator_may_act_as_nobody_else(api_server: ApiServer) -> None:
    for user in ("admin", f"system:serviceaccount:{NAMESPACE}:default", "system:serviceaccount:kube-system:x"):
        async with KubeClient.open(api_server.kubeconfig("operator"), impersonated=user) as kube:
            refused = await observed(kube, resource="nodes", namespace=None)
            assert refused.state is HealthState.BROKEN, (user, refused)
