"""`action: Plan` on one real node: nothing is touched, and its forecast comes true.

The tests share a node. What restarts everything comes last: it is the control, without which neither the forecast nor
the run's zero restarts would prove anything. In the other direction it is run by hand (``-m slow``).
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.faults import tamper
from e2e.lab.cluster import deploy
from e2e.lab.oracle.snapshot import NodeSnapshot, compare
from e2e.looks import planned
from e2e.naive import wait_restarted

OLD, NEW = "1.30.14", "1.33.13"
PODS = 12
BUSY = (
    *("dev", "proc", "run", "sys", "tmp", "var/lib/cni", "var/lib/containerd", "var/lib/kubelet", "var/lib/systemd"),
    "var/log",
)
"""Directories below a node's root to which it writes all the time, or whenever a pod comes."""


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


def settled(cluster: Cluster) -> NodeSnapshot:
    """Return what runs on the node once no agent is left and nothing changes any more."""
    cluster.wait_without_agent()
    return cluster.wait_settled()


def kubelet_pid(cluster: Cluster) -> str:
    return cluster.node.exec("systemctl", "show", "kubelet", "--property=MainPID", "--value").stdout.strip()


def files(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return size and modification time of every file of the node, except where it writes all the time."""
    found = {}
    for directory, names, plain in os.walk(cluster.node.disk):
        place = Path(directory).relative_to(cluster.node.disk)
        names[:] = [name for name in names if str(place / name) not in BUSY]
        for name in (*names, *plain):
            status = (Path(directory) / name).lstat()
            found[str(place / name)] = (status.st_size, status.st_mtime_ns)
    return found


@contextmanager
def untouched(cluster: Cluster) -> Iterator[NodeSnapshot]:
    """Assert that the body changes nothing: no instance, no stored hash, no file; and that the kubelet keeps running.

    Yields:
        What runs before, which is what runs after.
    """
    before, pid, on_disk = settled(cluster), kubelet_pid(cluster), files(cluster)
    ran = {c.id for c in before.containers if c.running} | {s.id for s in before.sandboxes if s.running}
    yield before
    after = settled(cluster)
    assert [str(d) for d in compare(before, after, hashes=True) if d.id in ran] == []
    assert kubelet_pid(cluster) == pid
    assert files(cluster).items() ^ on_disk.items() == set()
    assert cluster.schedulable()
    assert "nodeupgrade.dev/cordoned-by" not in cluster.node_object()["metadata"].get("annotations", {})


def forecast(cluster: Cluster) -> list[str]:
    """Return the containers that a plain kubelet swap would restart, as the node's task lists them."""
    preview = cluster.task()["status"]["preview"]
    assert len(preview["wouldRestartList"]) == preview["wouldRestart"]
    assert all("kubelet" in each["why"] for each in preview["wouldRestartList"])
    return [each["container"] for each in preview["wouldRestartList"]]


def test_an_altered_hash_is_a_hazard_with_the_name_of_its_container(cluster: Cluster) -> None:
    artifact = cluster.pre_staged(NEW)
    victim = next(c for c in cluster.node.snapshot().running() if c.name == "web" and "static" not in c.pod)
    original = tamper.store_hash(cluster, victim.id, tamper.WRONG)
    try:
        with untouched(cluster):
            cluster.apply("hazard", NEW, artifact, action="Plan")
            upgrade = planned(cluster, "hazard")
    finally:
        tamper.store_hash(cluster, victim.id, original)

    assert conditions(upgrade)["Planned"]["reason"] == "HazardsFound"
    status = cluster.task()["status"]
    assert (status["phase"], status["reason"]) == ("Refused", "StoredHashNotReproduced")
    objecting = [hazard["pod"] for hazard in status["hazards"] if not hazard.get("warning")]
    assert objecting == [f"{victim.pod}/{victim.name}"]
    cluster.delete("hazard")


def test_nothing_that_is_installed_is_compiled_when_the_operator_starts(cluster: Cluster) -> None:
    """An image whose files got another time by a reproducible build compiled everything at each start."""
    start = ("python", "-v", "-c", "import nodeupgrade.controlplane.__main__")
    said = cluster.lab.kubectl("exec", "-n", deploy.NAMESPACE, f"deployment/{deploy.DEPLOYMENT}", "--", *start).stderr

    loaded = [line.removeprefix("# code object from ") for line in said.splitlines() if "code object from" in line]
    installed = [path.strip("'") for path in loaded if "/opt/nodeupgrade/" in path]
    assert len(installed) > 100
    assert [path for path in installed if not path.endswith(".pyc")] == []


def test_a_plan_touches_nothing_and_a_run_does_what_it_said(cluster: Cluster) -> None:
    artifact = cluster.image(NEW)
    with untouched(cluster) as before:
        cluster.apply("plan", NEW, artifact, action="Plan", verify=quickly())
        upgrade = planned(cluster, "plan")

    assert conditions(upgrade)["Planned"]["reason"] == "PlanReady", cluster.task()["status"]
    assert cluster.task()["status"]["phase"] == "Prechecked"
    preview = cluster.task()["status"]["preview"]
    assert preview["rewritten"] + preview["unchanged"] == len(before.running())
    assert preview["staticPods"] == 1

    cluster.lab.kubectl(
        "patch", "nodeupgrade", "plan", "--type=merge", "--patch", json.dumps({"spec": {"action": "Run"}})
    )
    upgrade = cluster.wait_for_end("plan")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", upgrade["status"]
    assert disturbed(before, settled(cluster)) == []
    assert cluster.kubelet_version() == NEW
    counts = cluster.task()["status"]["containers"]
    # The containers of the agent that does the work, and of its artifact's pod, are rewritten as well.
    assert (counts["rewritten"], counts["restarted"]) == (preview["rewritten"] + 2, 0)
    cluster.delete("plan")


@pytest.mark.parametrize(("name", "version"), [("back", OLD), pytest.param("again", NEW, marks=pytest.mark.slow)])
def test_control_a_naive_swap_restarts_exactly_what_was_forecast(cluster: Cluster, name: str, version: str) -> None:
    artifact = cluster.pre_staged(version)
    with untouched(cluster) as before:
        cluster.apply(name, version, artifact, action="Plan", allowDowngrade=True)
        planned(cluster, name)
    said = forecast(cluster)
    cluster.delete(name)

    cluster.node.swap_naively(version)
    wait_restarted(cluster.node, {c.id for c in before.running() if f"{c.pod}/{c.name}" in said})
    survivors = {c.id for c in cluster.node.settled(quiet=8).running()}

    assert said == sorted(f"{c.pod}/{c.name}" for c in before.running() if c.id not in survivors)
