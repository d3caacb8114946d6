"""Conditions of a Node are set and removed one by one, by every implementation of the KubeApi port."""

import pytest

from nodeupgrade.cluster.kube_api import NODES, ConflictError
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.contract.kube.test_kube_api import name

__all__ = ["name"]


async def test_a_condition_is_set_and_removed_beside_others(kube: TypedKube, name: str) -> None:
    created = await kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    told = {"status": "True", "reason": "KubeletUpgrade", "message": "the kubelet is exchanged"}

    await kube.set_condition(NODES, name, "Example", {"status": "False"})
    set_ = await kube.set_condition(NODES, name, "MaintenanceInProgress", told)

    conditions = {each["type"]: each for each in set_["status"]["conditions"]}
    assert told.items() <= conditions["MaintenanceInProgress"].items()
    assert conditions["Example"]["status"] == "False"
    stale = str(created["metadata"]["resourceVersion"])
    with pytest.raises(ConflictError):
        await kube.set_condition(NODES, name, "MaintenanceInProgress", None, resource_version=stale)
    version = str(set_["metadata"]["resourceVersion"])
    gone = await kube.set_condition(NODES, name, "MaintenanceInProgress", None, resource_version=version)
    assert [each["type"] for each in gone["status"]["conditions"]] == ["Example"]
