"""The whole path on one real node: refused, rolled back, upgraded, downgraded, and the control.

The tests share a node and leave it at the version at which they found it, with all instances alive; the control, which
restarts everything, comes last.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from e2e import standin
from e2e.cluster import HELD_UP, NOTICED, Cluster, conditions, disturbed, quickly
from e2e.faults import tamper
from e2e.lab.errors import LabError
from e2e.lab.process import wait_until
from e2e.naive import survivors
from tests.enumeration import WHOLE

OLD, NEW = "1.30.14", "1.33.13"
PODS = 60 if WHOLE else 14
"""By default one of each unusual kind, and as many ordinary ones."""


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    made = shared_cluster(pods=PODS)
    made.wait_settled()
    return made


@pytest.fixture
def untouched(cluster: Cluster) -> Iterator[None]:
    """Assert that the body changes no instance, keeps the kubelet process and leaves nothing on the node."""
    cluster.wait_without_agent()
    before, pid = cluster.node.snapshot(), kubelet_pid(cluster)
    yield
    assert disturbed(before, cluster.node.snapshot()) == []
    assert kubelet_pid(cluster) == pid
    assert cluster.schedulable()
    assert list((cluster.node.disk / "usr/bin").glob(".kubelet*staged*")) == []
    assert not (cluster.node.disk / "etc/systemd/system/nodeupgrade-executor.service").exists()


def kubelet_pid(cluster: Cluster) -> str:
    return cluster.node.exec("systemctl", "show", "kubelet", "--property=MainPID", "--value").stdout.strip()


def refused(cluster: Cluster, name: str, reason: str) -> str:
    """Assert that a NodeUpgrade was refused for this reason, in its conditions and in an event; return the message."""
    upgrade = cluster.wait_for_end(name)
    states = conditions(upgrade)
    told = [c["message"] for c in states.values() if c["reason"] == reason]
    failures = [f["message"] for f in upgrade["status"].get("failures", []) if f["reason"] == reason]
    assert told or failures, upgrade["status"]
    # Events follow the status that they tell of.
    wait_until(f"event {reason}", lambda: reason in {event["reason"] for event in cluster.events(name)}, timeout=60)
    assert states.get("Ready", {}).get("status") != "True"
    cluster.delete(name)
    return str((told + failures)[0])


# ── refused: the node is not touched ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("untouched")
def test_a_stored_hash_that_cannot_be_reproduced_is_refused(cluster: Cluster) -> None:
    victim = next(c for c in cluster.node.snapshot().running() if c.name == "web")
    original = tamper.store_hash(cluster, victim.id, tamper.WRONG)
    try:
        cluster.apply("altered", NEW, cluster.pre_staged(NEW))
        message = refused(cluster, "altered", "StoredHashNotReproduced")
    finally:
        tamper.store_hash(cluster, victim.id, original)

    assert victim.pod in message


@pytest.mark.usefixtures("untouched")
def test_a_pod_that_the_next_kubelet_start_would_kill_is_refused(cluster: Cluster) -> None:
    cluster.lab.kubectl("label", "node", cluster.node.name, "disk=ssd")
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "picky", "namespace": "workload"},
        "spec": {
            "nodeSelector": {"disk": "ssd"}, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "stay", "image": "nodeupgrade.test/busybox:1", "imagePullPolicy": "Never",
                            "command": ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"]}],
        },
    }  # fmt: skip
    cluster.lab.apply(pod)
    cluster.lab.kubectl_wait("wait", "-n", "workload", "pod/picky", "--for=condition=Ready", timeout=60)
    cluster.lab.kubectl("label", "node", cluster.node.name, "disk-")
    try:
        cluster.apply("affinity", NEW, cluster.pre_staged(NEW))
        assert "workload/picky" in refused(cluster, "affinity", "NodeAffinityNotMet")
    finally:
        cluster.lab.kubectl("delete", "-n", "workload", "pod/picky", "--wait=true", timeout=120)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("name", "version", "change", "reason"),
    [
        ("digest", NEW, {"artifact": {"preStaged": {"linux-amd64": {"path": "/usr/bin/kubelet", "sha256": "0" * 64}}}},
         "DigestMismatch"),
        ("older", "1.29.15", {}, "DowngradeNotAllowed"),
        ("newer-than-api", "1.34.4", {}, "VersionSkew"),
        ("unknown", "1.99.0", {"skewPolicy": "Warn"}, "UnsupportedVersion"),
        ("no-node", NEW, {"nodes": {"names": ["node77"]}}, "NodeNotFound"),
        ("no-match", NEW, {"nodes": {"selector": {"matchLabels": {"pool": "nowhere"}}}}, "NoMatchingNodes"),
        ("no-file", NEW, {"artifact": {"preStaged": {"linux-amd64": {"path": "/nowhere", "sha256": "0" * 64}}}},
         "ArtifactUnavailable"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(
    cluster: Cluster, name: str, version: str, change: dict[str, object], reason: str
) -> None:
    cluster.apply(name, version, **{"artifact": cluster.pre_staged(OLD), **change})  # type: ignore[arg-type]

    refused(cluster, name, reason)


# ── rolled back ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_kubelet_that_exits_at_once_is_rolled_back_without_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    before = cluster.wait_settled()
    exits = cluster.pre_staged_file(standin.program(NEW, tmp_path), NEW)

    cluster.apply("exits", NEW, exits, verify=quickly())
    upgrade = cluster.wait_for_end("exits")
    task = cluster.task()

    assert task["status"]["phase"] == "RolledBack"
    assert task["status"]["reason"] == "KubeletDidNotStart"
    assert task["status"]["containers"]["restarted"] == 0
    assert upgrade["status"]["containers"]["restarted"] == 0
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == OLD
    assert cluster.schedulable()
    cluster.delete("exits")


def test_one_wrong_hash_is_noticed_and_rolled_back_with_nothing_lost(cluster: Cluster) -> None:
    """The runtime is restarted under the shield, which refuses; test_settling.py has the control."""
    before = cluster.wait_settled()
    victim = next(c for c in before.running() if "/web-" in c.pod)  # others have hooks, which a kubelet runs first

    program, verify = cluster.pre_staged(NEW), quickly(settle=NOTICED, **HELD_UP)

    tamper.give_wrong_hash(cluster, "wrong", victim.id, lambda: cluster.apply("wrong", NEW, program, verify=verify))
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "ShieldRefusedCall"), status
    assert f"wanted to stop {victim.pod}/{victim.name}" in status["message"]
    assert status["containers"]["restarted"] == 0
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == OLD
    assert cluster.schedulable()
    cluster.delete("wrong")


# ── upgraded ────────────────────────────────────────────────────────────────────────────────────────────────────────


def upgraded(cluster: Cluster, name: str, version: str, artifact: dict[str, object], **spec: object) -> None:
    """Upgrade, and assert that nothing restarted."""
    before = cluster.wait_settled()
    running = before.running()
    with watched(cluster, "nodeupgrade-system/nodeupgrade-agent-") as agents:
        cluster.apply(name, version, artifact, **spec)
        upgrade = cluster.wait_for_end(name)
    task = cluster.task()["status"]

    assert conditions(upgrade)["Succeeded"]["status"] == "True", upgrade["status"]
    assert task["phase"] == "Succeeded"
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == version
    assert cluster.schedulable()
    assert task["containers"]["restarted"] == 0
    # The agent's own container was there too, and that of its artifact's pod, and was the same instance all the time.
    assert task["containers"]["baseline"] == len(running) + (2 if "image" in artifact else 1)
    assert len(agents) == 1
    row = cluster.lab.kubectl("get", "nodeupgrades", name, "--no-headers").stdout.split()
    assert row[:4] == [name, f"v{version}", "Succeeded", "1/1"]
    nodes = cluster.lab.api.list("nodes")
    assert all(c["status"] == "True" for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready")


@contextmanager
def watched(cluster: Cluster, pod: str) -> Iterator[set[tuple[str, int, int | None]]]:
    """Collect every running instance of the main container of a pod while the body runs."""
    seen: set[tuple[str, int, int | None]] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(1):
            with suppress(LabError, OSError):  # the runtime is being restarted
                running = cluster.node.snapshot().running()
                # A process whose start could not be read at that moment is seen with it the next time.
                seen.update(
                    (c.id, c.pid, c.process_start)
                    for c in running
                    if c.pod.startswith(pod) and c.name == "agent" and c.process_start is not None
                )

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def test_no_container_notices_an_upgrade_across_eras(cluster: Cluster) -> None:
    upgraded(cluster, "up", NEW, cluster.image(NEW))


def test_nor_the_way_back_by_a_download(cluster: Cluster) -> None:
    with cluster.url(OLD) as artifact:
        upgraded(cluster, "back", OLD, artifact, allowDowngrade=True)


def test_control_a_naive_swap_restarts_every_container(cluster: Cluster) -> None:
    """Without this, none of the above would prove anything."""
    cluster.wait_settled()
    assert survivors(cluster.node, NEW) == set()
