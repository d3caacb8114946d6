"""The page of a rollout as a browser gets it. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden; look at it."""

import pytest

from nodeupgrade.cluster.kube_api import TASKS
from tests.golden.cli.cluster import WORLD, Cluster, check


@pytest.mark.parametrize(("rollout", "golden"), [("kubelet-1-33-13", "running"), ("kubelet-1-30-14", "nodes-gone")])
def test_the_page(rollout: str, golden: str) -> None:
    printed = Cluster(*WORLD).run(f"nodeupgrade report {rollout}")
    page = printed.partition("\n")[2].rstrip("\n") + "\n"
    check(f"report-{golden}.html", [page])


def test_tasks_that_cannot_be_read_are_named_and_the_rest_is_reported() -> None:
    cluster = Cluster(*WORLD)
    whole = cluster.run("nodeupgrade report kubelet-1-33-13 -o markdown")
    for node in ("web-a-1", "web-a-3"):
        cluster.add({**cluster.get(TASKS, node), "spec": {}})

    told = cluster.run("nodeupgrade report kubelet-1-33-13 -o markdown")

    (notice,) = (line for line in told.splitlines() if "cannot be read, and" in line)
    assert "2 NodeUpgradeTasks" in notice
    assert "web-a-1, web-a-3 (web-a-1: spec.nodeName: it is missing)" in notice
    lost = [line for line in whole.splitlines() if line.startswith("| web-") and line not in told.splitlines()]
    assert {line.split()[1] for line in lost} == {"web-a-1", "web-a-3"}
    assert "| web-a-1 | RolledBack | KubeletDidNotStart |" in told  # which the NodeUpgrade records as well
