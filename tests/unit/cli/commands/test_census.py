"""What nodes have counted, added up; whatever somebody has written into a task."""

from dataclasses import replace

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import HashCensus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cli.commands.census import Carried, fleet_census
from tests.scenario.agent.given import upgrade_task


def task(node: str, kubelets: dict[str, int]) -> Task:
    bare = upgrade_task(NodeName(node), RunId("run"), "v1.30.14", "v1.33.13", source="/opt/kubelet")
    return replace(bare, status=replace(bare.status, hashes=HashCensus(kubelets=kubelets)))


def test_what_is_no_minor_version_is_unknown() -> None:
    told = [task("node-0", {"1.30": 2, "\x1b[31m": 1}), task("node-1", {"1.9": 3, "1.30": 1, "latest": 4, "1.17": 0})]

    found = fleet_census(told, {"node-0", "node-1", "node-2"})

    assert found.kubelets == (
        Carried(kubelet="1.9", containers=3, nodes=1),
        Carried(kubelet="1.30", containers=3, nodes=2),
        Carried(kubelet="unknown", containers=5, nodes=2),
    )
    assert found.uncounted == ("node-2",)
