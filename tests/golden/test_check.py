"""What `nodeupgrade check` says of an installation, as the manifests make it and with parts of it missing."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import (
    DEPLOYMENTS,
    PODS,
    TASKS,
    UPGRADES,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    Resource,
)
from tests.doubles.kube import merged
from tests.golden.cli.cluster import WORLD, Cluster, check
from tests.golden.test_impeded import DENIED
from tools.release.manifests import CHECKOUT

NAMESPACE = "nodeupgrade-system"
MANIFESTS = ("operator.yaml", "readiness-guard.yaml", "operator-fence.yaml", "agent-identity.yaml")
KINDS = {"Deployment", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
POD = "nodeupgrade-operator-5d9c7-x2x7q"
COMMAND = "nodeupgrade check --node web-b-1"
BEFORE_UNINSTALL = "nodeupgrade check --before-uninstall"
ROLLOUT = "kubelet-1-33-13"


class Partly:
    """An API server that does not serve everything, or refuses it."""

    def __init__(self, kube: Any, errors: Mapping[str, Exception]) -> None:
        self._kube = kube
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kube, name)

    async def get(self, resource: Resource, name: str) -> Json:
        self._reject(resource.plural)
        found: Json = await self._kube.get(resource, name)
        return found

    async def list(self, resource: Resource, **asked: Any) -> list[Json]:
        self._reject(resource.plural)
        found: list[Json] = await self._kube.list(resource, **asked)
        return found

    def pages(self, resource: Resource) -> Any:
        self._reject(resource.plural)
        return self._kube.pages(resource)

    async def try_create(self, resource: Resource, body: Json) -> Json:
        self._reject("try")
        made: Json = await self._kube.try_create(resource, body)
        return made

    def _reject(self, what: str) -> None:
        if what in self._errors:
            raise self._errors[what]


def operator(**state: Json) -> Json:
    labels = {"app.kubernetes.io/name": "nodeupgrade-operator"}
    container = {"name": "operator", "image": "registry.example/nodeupgrade:9.9.9", "state": state}
    metadata = {"name": POD, "namespace": NAMESPACE, "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": "Pending", "containerStatuses": [container]}}


def lease(renewed: str) -> Json:
    spec = {"holderIdentity": f"{POD}_1f2e", "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"kind": "Lease", "metadata": {"name": "nodeupgrade-operator", "namespace": NAMESPACE}, "spec": spec}


RECENT, OLD = "2026-03-02T09:59:59.000000Z", "2026-03-02T08:00:00.000000Z"


@pytest.fixture
def cluster() -> Cluster:
    """One in which everything is installed, and a replica leads."""
    cluster = Cluster(*WORLD)
    for file in MANIFESTS:
        for body in yaml.safe_load_all((CHECKOUT / "manifests" / file).read_text(encoding="utf-8")):
            if body["kind"] in KINDS:
                cluster.add(body)
    cluster.add(operator(running={}))
    cluster.add(lease(RECENT))
    return cluster


def partly(cluster: Cluster, command: str = COMMAND, /, **errors: Exception) -> str:
    whole = cluster.kube
    cluster.kube = Partly(whole, errors)  # type: ignore[assignment]
    try:
        return cluster.run(command)
    finally:
        cluster.kube = whole


def test_an_installation_is_looked_at(cluster: Cluster) -> None:
    told = [cluster.run(COMMAND), cluster.run("nodeupgrade check"), cluster.run("nodeupgrade check -o json")]
    cluster.kube.forbidden = frozenset({("create", "nodeupgrades"), ("patch", "nodeupgrades"), ("create", "pods")})
    told.append(cluster.run(COMMAND))
    cluster.kube.forbidden = frozenset({("list", "nodes"), ("get", "deployments")})
    told.append(cluster.run(COMMAND))
    check("check.txt", told)


@pytest.mark.parametrize("named", ["", "registry.example/agent:1"])
def test_an_agent_is_tried_with_the_image_that_it_would_have(cluster: Cluster, named: str) -> None:
    place = DEPLOYMENTS.within(NAMESPACE)
    deployment = cluster.get(place, "nodeupgrade-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = "registry.example/nodeupgrade:9.9.9"
    container["env"].append({"name": "AGENT_IMAGE", "value": named})
    cluster.add(deployment)

    assert f"with the image {named or container['image']}" in " ".join(cluster.run(COMMAND).split())


def test_an_operator_may_be_uninstalled_when_no_node_is_in_flight(cluster: Cluster) -> None:
    told = [cluster.run(BEFORE_UNINSTALL)]
    for body in [body for (plural, _, _), body in cluster.kube._objects.items() if plural == UPGRADES.plural]:
        cluster.add({**body, "status": {**body["status"], "inFlight": []}})
    told.append(cluster.run(BEFORE_UNINSTALL))
    cluster.kube._objects.pop((UPGRADES.plural, None, ROLLOUT))  # abandoned: the runs go on without it
    for node in ("web-a-3", "web-a-4"):
        told.append(cluster.run(BEFORE_UNINSTALL))
        task = cluster.get(TASKS, node)
        cluster.add(merged(task, {"status": {"runID": task["spec"]["runID"], "phase": "Succeeded"}}))
    told.append(cluster.run(BEFORE_UNINSTALL))
    check("check-before-uninstall.txt", told)


def test_an_operator_may_be_uninstalled_once_its_definitions_are_gone(cluster: Cluster) -> None:
    gone = NotFoundError("cannot GET this because it is not there")
    said = partly(cluster, BEFORE_UNINSTALL, nodeupgrades=gone, nodeupgradetasks=gone)
    assert "none; 0 NodeUpgrades in all" in said
    assert "exit code" not in said


def test_a_task_that_cannot_be_read_may_be_of_a_node_in_flight(cluster: Cluster) -> None:
    cluster.add(merged(cluster.get(TASKS, "web-a-1"), {"status": {"phase": "Teleporting"}}))
    said = cluster.run(BEFORE_UNINSTALL)
    assert "cannot understand NodeUpgradeTask web-a-1" in said
    assert "exit code 1" in said


def test_what_is_wrong_with_it_is_told_with_the_remedy(cluster: Cluster) -> None:
    gone, hidden = NotFoundError("cannot GET this because it is not there"), ForbiddenError("not for you")
    told = [
        partly(
            cluster,
            nodeupgrades=gone,
            leases=gone,
            deployments=gone,
            validatingadmissionpolicies=gone,
            validatingadmissionpolicybindings=gone,
        ),
        partly(cluster, nodeupgrades=hidden, leases=hidden, validatingadmissionpolicies=hidden),
        partly(cluster, **{"try": RejectedError(DENIED)}),
    ]
    cluster.add(lease(OLD))
    told.append(cluster.run("nodeupgrade check"))
    image = 'Back-off pulling image "registry.example/nodeupgrade:9.9.9"'
    cluster.add(operator(waiting={"reason": "ImagePullBackOff", "message": image}))
    told.append(cluster.run("nodeupgrade check"))
    cluster.add(operator(waiting={"reason": "CrashLoopBackOff"}))
    told.append(cluster.run("nodeupgrade check"))
    unscheduled = operator(waiting={})
    full = {"type": "PodScheduled", "status": "False", "message": "0/12 nodes are available: 12 Insufficient cpu."}
    unscheduled["status"] = {"phase": "Pending", "conditions": [full]}
    cluster.add(unscheduled)
    told.append(cluster.run("nodeupgrade check"))
    cluster.kube._objects.pop((PODS.plural, NAMESPACE, POD))
    told.append(cluster.run("nodeupgrade check"))
    check("check-problems.txt", told)


def test_a_leader_whose_clock_is_wrong_is_seen_to_renew(cluster: Cluster) -> None:
    cluster.add(lease(OLD))
    cluster.at_sleep = [lease("2026-03-02T08:00:02.000000Z")]
    assert f"{POD} leads" in cluster.run("nodeupgrade check")


def test_an_api_server_without_policies_is_fine(cluster: Cluster) -> None:
    cluster.kube.version = "v1.29.14"
    printed = cluster.run("nodeupgrade check")
    assert "has no admission policies" in printed
    assert "exit code" not in printed
