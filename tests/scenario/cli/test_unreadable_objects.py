"""Objects that this version cannot read, as a newer operator may write them: the others are shown all the same."""

import pytest

from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from tests.golden.cli.cluster import WORLD, Cluster

NODE, ROLLOUT = "web-a-3", "kubelet-1-33-13"
LEFT_OUT = (
    "warning: cannot understand NodeUpgradeTask web-a-3 because status.phase: 'Teleporting' is not one of Pending,"
)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*WORLD)


def exit_code(printed: str) -> str:
    return printed.rstrip().partition("\nexit code ")[2] or "0"


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("hashes --fleet", "CONTAINERS"),
        (f"hashes {NODE} web-a-2", "container"),
        (f"failures {ROLLOUT}", "web-a-2"),
        ("status", "kubelet-1-34-plan"),
        (f"status {ROLLOUT}", "Running"),
        (f"status {ROLLOUT} --verbose", "web-a-2"),
    ],
)
def test_a_task_that_cannot_be_read_is_named_once_and_the_others_are_shown(
    cluster: Cluster, line: str, others: str
) -> None:
    before = cluster.run(f"nodeupgrade {line}")
    task = cluster.get(TASKS, NODE)
    task["status"]["phase"] = "Teleporting"
    cluster.add(task)

    printed = cluster.run(f"nodeupgrade {line}")

    assert " ".join(printed.split()).count(LEFT_OUT) == 1
    assert others in printed
    assert exit_code(printed) == exit_code(before)


def test_what_cannot_be_read_may_be_a_failure(cluster: Cluster) -> None:
    task = cluster.get(TASKS, NODE)
    task["status"]["phase"], task["metadata"]["labels"] = "Teleporting", {"nodeupgrade.dev/upgrade": "kubelet-1-30-14"}
    cluster.add(task)
    printed = cluster.run("nodeupgrade failures kubelet-1-30-14")
    assert LEFT_OUT in " ".join(printed.split())
    assert "No node" not in printed
    assert exit_code(printed) == "1"


def test_many_are_counted(cluster: Cluster) -> None:
    for number in range(500):
        task = cluster.get(TASKS, NODE)
        task["metadata"].update(name=f"node-{number:03}", uid=f"t-{number}")
        task["status"]["phase"] = "Teleporting"
        cluster.add(task)
    printed = " ".join(cluster.run("nodeupgrade hashes --fleet").split())
    assert "warning: cannot understand 500 NodeUpgradeTasks (node-000, node-001, " in printed


def test_a_rollout_that_cannot_be_read_is_named_and_the_others_are_shown(cluster: Cluster) -> None:
    rollout = cluster.get(UPGRADES, "kubelet-1-34-plan")
    rollout["status"]["counts"] = "many"
    cluster.add(rollout)
    printed = cluster.run("nodeupgrade status")
    assert "warning: cannot understand NodeUpgrade kubelet-1-34-plan because status.counts:" in " ".join(
        printed.split()
    )
    assert ROLLOUT in printed
    assert exit_code(printed) == "0"
