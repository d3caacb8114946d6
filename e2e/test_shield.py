"""Where hashes are wrong and the shield is up, nothing restarts on a real node; test_settling.py has the control.

Wrong hashes come from a failpoint in the planner: they are computed rightly, proved, and then replaced. By hand
(``-m slow``) one alone is so replaced, and /run is full; test_upgrade.py has a hash that becomes wrong in the runtime's
store.
"""

import subprocess
from collections.abc import Callable

import pytest

from e2e.cluster import NOTICED, Cluster, conditions, disturbed, quickly
from e2e.faults.oracle import listener
from e2e.faults.tamper import planned_wrong_hashes
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from e2e.lab.workloads.workload import NAMESPACE

OLD, NEW = "1.30.14", "1.33.13"
PODS = 8
PORT = 8077
SERVES = f"trap 'exit 0' TERM; echo begun; httpd -p {PORT} -h /etc; while :; do echo tick; sleep 1; done"
CRASHES, DELETED, SERVER = "crashes", "deleted", "server"
RUNS = "/var/lib/nodeupgrade/runs"
NEW_KUBELET_STARTS = f"""
starts() {{
    for run in {RUNS}/*; do
        case "$known" in *"${{run##*/}}"*) continue;; esac
        if grep -qs '"mark":"doing".*"step":"start-kubelet"' "$run/journal"; then return 0; fi
    done
    return 1
}}
known=$1
until starts; do sleep 0.02; done
"""
"""Waits until a run that is not among those given starts the new kubelet."""


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


def without_a_trace(cluster: Cluster) -> None:
    """Assert that the runtime's own socket is in its place, and nothing of the shield is left."""
    node = cluster.node
    names = node.exec("ls", "/run/containerd").stdout.split()
    assert not [name for name in names if name.startswith("nodeupgrade")]
    assert node.exec("systemctl", "is-active", "nodeupgrade-shield", check=False).stdout.strip() == "inactive"
    assert listener(node) == "containerd"
    assert cluster.schedulable()


@pytest.mark.parametrize("which", [pytest.param("one", marks=pytest.mark.slow), "all"])
def test_wrong_hashes_disturb_nothing(cluster: Cluster, which: str) -> None:
    before = cluster.wait_settled()
    verify = quickly(settle=NOTICED, shield="Require")
    with planned_wrong_hashes(cluster, which):
        cluster.apply(f"wrong-{which}", NEW, cluster.pre_staged(NEW), verify=verify)
        cluster.wait_for_end(f"wrong-{which}")
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "ShieldRefusedCall"), status
    assert "kubelet v1.33.13 wanted to stop " in status["message"]
    assert status["containers"]["restarted"] == 0
    assert status["shield"]["state"] == "Raised"
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == OLD
    without_a_trace(cluster)
    cluster.delete(f"wrong-{which}")


@pytest.mark.slow
def test_a_kubelet_that_is_turned_back_is_stopped_where_run_is_full(cluster: Cluster) -> None:
    """Nobody can write to /run, and systemd does not read its files; what that leaves, the next run removes."""
    node, before = cluster.node, cluster.wait_settled()
    with planned_wrong_hashes(cluster):
        known = node.exec("ls", RUNS, check=False).stdout  # none by the first run on a node
        cluster.apply("full", NEW, cluster.pre_staged(NEW), verify=quickly(settle=NOTICED, shield="Require"))
        with node.full_run(NEW_KUBELET_STARTS, known, timeout=180):
            cluster.wait_for_end("full")
        status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "ShieldRefusedCall"), status
    assert disturbed(before, cluster.wait_settled()) == []
    cluster.delete("full")
    cluster.apply("roomy", NEW, cluster.pre_staged(NEW), verify=quickly())
    cluster.wait_for_end("roomy")
    assert cluster.task()["status"]["phase"] == "Succeeded", cluster.task()["status"]
    cluster.apply("roomy-back", OLD, cluster.pre_staged(OLD), verify=quickly(), allowDowngrade=True)
    cluster.wait_for_end("roomy-back")
    without_a_trace(cluster)
    cluster.delete("roomy")
    cluster.delete("roomy-back")


def kubectl(cluster: Cluster, *arguments: str) -> "subprocess.Popen[str]":
    """Start kubectl, and let it run."""
    argv = cluster.lab.command(str(cluster.lab.kubectl_binary), "--namespace", NAMESPACE, *arguments)
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said(process: "subprocess.Popen[str]", text: str = "") -> str:
    """Have a shell behind ``kubectl exec -i`` answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    if text:
        process.stdin.write(f"echo {text}\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def served(cluster: Cluster) -> bool:
    """Report whether the pod answers at the forwarded port."""
    asked = ("curl", "--silent", "--fail", "--max-time", "10", f"http://127.0.0.1:{PORT}/passwd")
    return "root" in cluster.lab.exec(*asked, check=False).stdout


def test_what_people_and_pods_do_goes_on_under_the_shield(cluster: Cluster) -> None:
    for name in (CRASHES, DELETED, SERVER):
        workload.start_pod(cluster.lab, name, SERVES, node=cluster.node.name)
    before = cluster.wait_settled()
    [crashing] = [c for c in before.running() if c.pod == f"{NAMESPACE}/{CRASHES}"]

    cluster.apply("busy", NEW, cluster.pre_staged(NEW), verify=quickly(settle="30s", shield="Require"))
    cluster.wait_settling("busy")
    known = ("exec", "--namespace", NAMESPACE, SERVER, "--", "true")
    wait_until(
        "the kubelet to know its pods",
        lambda: cluster.lab.kubectl(*known, check=False).returncode == 0 or None,
        timeout=60,
    )
    shell, logs = kubectl(cluster, "exec", "-i", SERVER, "--", "sh"), kubectl(cluster, "logs", "-f", SERVER)
    attached = kubectl(cluster, "attach", SERVER)
    forward = kubectl(cluster, "port-forward", f"pod/{SERVER}", f"{PORT}:{PORT}")
    started = (shell, logs, attached, forward)
    try:
        assert said(shell, "under") == "under"
        assert said(logs) == "begun"
        assert said(attached)
        assert said(forward).startswith("Forwarding from")
        assert served(cluster)
        cluster.node.exec("kill", "-TERM", str(crashing.pid))
        cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, DELETED, "--wait=false")
        status = cluster.wait_for_end("busy")["status"]
        assert said(shell, "after") == "after"
        assert served(cluster)
        assert all(process.poll() is None for process in started)
        ticks = [said(logs) for _ in range(40)]
        assert ticks[-1] == "tick"
    finally:
        for process in started:
            process.terminate()
            process.communicate()
    task = cluster.task()["status"]

    assert conditions({"status": status})["Succeeded"]["status"] == "True", (status, task)
    assert task["shield"]["state"] == "Raised"
    assert task["containers"]["endedList"] == [f"{NAMESPACE}/{CRASHES}/main"]
    assert task["containers"]["ownerChanges"] == [{"name": f"{NAMESPACE}/{DELETED}", "change": "PodDeleted"}]
    after = cluster.wait_settled()
    theirs = {c.id for c in before.containers if c.pod in {f"{NAMESPACE}/{CRASHES}", f"{NAMESPACE}/{DELETED}"}}
    assert {d.id for d in disturbed(before, after)} & {c.id for c in before.running()} == theirs
    assert [c.attempt for c in after.running() if c.pod == f"{NAMESPACE}/{CRASHES}"] == [1]
    assert not [c for c in after.running() if c.pod == f"{NAMESPACE}/{DELETED}"]
    without_a_trace(cluster)
    cluster.delete("busy")
