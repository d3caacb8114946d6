"""A node that could not be rolled back is repaired once it is uncordoned and has no task; `retry` then has no "But"."""

from collections.abc import Callable

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ForbiddenError, Resource
from tests.doubles.kube import InMemoryKube, merged
from tests.golden.cli.cluster import WORLD, Cluster
from tests.golden.test_cluster_cli import ROLLOUT

NODE = "web-a-1"
BUT = "But 1 node could not be rolled back; such a node is retried only if it was repaired and uncordoned"


@pytest.fixture
def cluster() -> Cluster:
    """One whose NODE could not be rolled back, and is cordoned for that."""
    cluster = Cluster(*WORLD)
    task, node, body = cluster.get(TASKS, NODE), cluster.get(NODES, NODE), cluster.get(UPGRADES, ROLLOUT)
    task["spec"]["verdict"]["outcome"] = task["status"]["phase"] = "RollbackFailed"
    node["spec"] = {"unschedulable": True}
    node["metadata"]["annotations"] = {"nodeupgrade.dev/cordoned-by": body["metadata"]["uid"]}
    failure = next(each for each in body["status"]["failures"] if each["node"] == NODE)
    failure |= {"outcome": "RollbackFailed", "uid": node["metadata"]["uid"]}
    counts = body["status"]["counts"]
    counts |= {"rolledBack": counts["rolledBack"] - 1, "rollbackFailed": 1}
    for each in (task, node, body):
        cluster.add(each)
    return cluster


def uncordon(cluster: Cluster) -> None:
    cluster.add({**cluster.get(NODES, NODE), "spec": {}})


def delete_task(cluster: Cluster) -> None:
    cluster.kube._objects.pop((TASKS.plural, None, NODE))


def retry(cluster: Cluster) -> tuple[str, bool, bool]:
    """How many nodes are retried for sure, whether there is a reservation, and whether it failed."""
    said = cluster.run(f"nodeupgrade retry {ROLLOUT}")
    assert cluster.get(UPGRADES, ROLLOUT)["metadata"]["annotations"]["nodeupgrade.dev/retry"]
    return said.partition("Done: ")[2].partition(" of ")[0], BUT in said, "exit code 1" in said


def other_version(cluster: Cluster) -> None:
    """Have another version write the task, which this one cannot read."""
    cluster.add(merged(cluster.get(TASKS, NODE), {"status": {"phase": "Teleporting"}}))


@pytest.mark.parametrize("repairs", [[], [uncordon], [delete_task], [other_version]])
def test_one_that_is_not_repaired_is_named(cluster: Cluster, repairs: list[Callable[[Cluster], None]]) -> None:
    for repair in repairs:
        repair(cluster)
    assert retry(cluster) == ("1 node", True, True)


def test_one_that_was_repaired_is_retried(cluster: Cluster) -> None:
    uncordon(cluster)
    delete_task(cluster)
    assert retry(cluster) == ("2 nodes", False, False)


def test_one_whose_node_is_gone_is_cleared(cluster: Cluster) -> None:
    delete_task(cluster)
    cluster.kube._objects.pop((NODES.plural, None, NODE))
    assert retry(cluster) == ("2 nodes", False, False)


def test_who_may_not_read_nodes_does_not_know(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    uncordon(cluster)
    delete_task(cluster)
    before = InMemoryKube.get

    async def get(self: InMemoryKube, resource: Resource, name: str) -> Json:
        if resource.plural == NODES.plural:
            raise ForbiddenError("nodes are forbidden")
        return await before(self, resource, name)

    monkeypatch.setattr(InMemoryKube, "get", get)
    assert retry(cluster) == ("1 node", True, True)
