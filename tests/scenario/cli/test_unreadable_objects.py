"""Objects that this version cannot read, as a newer operator may write them: the others are shown all the same."""

import pytest

from nodeupgrade.cluster.kube_api import TASKS, UPGRADES, InvalidError
from tests.golden.cli.cluster import WORLD, Cluster, of_contexts, run

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


PAUSE = "nodeupgrade.dev/pause"
GPU = f"{ROLLOUT}-gpu"


def of_a_newer_operator(cluster: Cluster, name: str = ROLLOUT, **status: str) -> None:
    rollout = cluster.get(UPGRADES, name)
    rollout["status"] |= status
    rollout["status"]["waves"][0]["state"] = "Teleporting"
    cluster.add(rollout)
    cluster.kube.schemas = False  # its CRDs are newer, too


def paused(cluster: Cluster, name: str = ROLLOUT) -> str:
    annotations = cluster.get(UPGRADES, name)["metadata"].get("annotations") or {}
    return str(annotations.get(PAUSE, ""))


@pytest.mark.parametrize("which", ["--all", ROLLOUT])
def test_a_rollout_that_cannot_be_read_is_paused_all_the_same(cluster: Cluster, which: str) -> None:
    of_a_newer_operator(cluster)

    tried = cluster.run(f"nodeupgrade pause {which} --dry-run")
    before = paused(cluster)
    first, again = cluster.run(f"nodeupgrade pause {which}"), cluster.run(f"nodeupgrade pause {which}")

    assert (before, paused(cluster)) == ("", "true")
    assert [exit_code(printed) for printed in (tried, first, again)] == ["0", "0", "0"]
    assert f"Done: no further node of {ROLLOUT} is started until it is resumed; whether nodes are in flight is" in first
    assert f"Nothing to do: {ROLLOUT} is already paused by annotation; whether nodes are in flight is unknown" in again


def test_it_is_not_said_that_no_node_of_it_is_in_flight(cluster: Cluster) -> None:
    of_a_newer_operator(cluster)
    printed = cluster.run(f"nodeupgrade pause {ROLLOUT} --wait")
    assert paused(cluster) == "true"
    assert "error: cannot understand NodeUpgrade kubelet-1-33-13 because status.waves" in " ".join(printed.split())
    assert exit_code(printed) == "1"


@pytest.mark.parametrize("which", ["--all", ROLLOUT])
def test_it_is_not_resumed_unseen_and_every_context_where_it_is_is_named(cluster: Cluster, which: str) -> None:
    cluster.run(f"nodeupgrade pause {ROLLOUT}")
    cluster.kube._objects.pop((UPGRADES.plural, None, GPU))  # a resume has no effect on it, as its spec says Pause
    other = cluster.copy()
    of_a_newer_operator(cluster)
    world = of_contexts({"prod-fra": cluster, "prod-lon": other})

    printed = run(f"nodeupgrade resume {which} --context 'prod-*'", world)

    assert (paused(cluster), paused(other)) == ("true", "")
    told = "".join(line for line in printed.splitlines() if line.startswith("prod-fra: ") and "error: " in line)
    assert "cannot understand NodeUpgrade kubelet-1-33-13 because status.waves" in told
    assert "error: not done in 1 of 2 clusters: prod-fra" in printed
    assert exit_code(printed) == "1"


def test_one_that_has_ended_needs_no_brake(cluster: Cluster) -> None:
    of_a_newer_operator(cluster, completedAt="2026-03-01T00:00:00Z")
    for command in ("pause", "resume"):
        assert ROLLOUT not in cluster.run(f"nodeupgrade {command} --all").replace(GPU, "").partition("\n")[2]
    assert paused(cluster) == ""


def test_a_rollout_whose_change_is_denied_keeps_the_brake_from_no_other(cluster: Cluster) -> None:
    cluster.run("nodeupgrade resume --all")

    def deny(_verb: str, name: str) -> None:
        if name == ROLLOUT:
            raise InvalidError("the policy 'freeze' denies it")

    cluster.kube.before_write = deny
    printed = cluster.run("nodeupgrade pause --all")

    assert (paused(cluster), paused(cluster, GPU)) == ("", "true")
    assert f"{ROLLOUT}: error: the policy 'freeze' denies it" in printed
    assert exit_code(printed) == "1"
