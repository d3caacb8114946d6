"""Files that go along with the kubelet, on a real node: exchanged with it, put back exactly, and the control.

Kubelet 1.30 runs with a feature gate that 1.33 no longer knows: one file cannot serve both.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import changes, standin
from e2e.cluster import Cluster, Object, conditions, disturbed, quickly
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until

OLD, NEW = "1.30.14", "1.33.13"
GATE = "InTreePluginAWSUnregister"
LIMITS = "/etc/systemd/system/kubelet.service.d/20-limits.conf"
DROP_IN = "[Service]\nLimitNOFILE=999999\n"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A node whose kubelet runs with the gate."""
    made = make_cluster("files", OLD, pods=6)
    made.node.exec("mkdir", "-p", str(Path(LIMITS).parent))
    with changes.kubelet_settings(made.node, featureGates={GATE: False}):
        made.wait_settled()
        yield made


def present(cluster: Cluster, path: str) -> tuple[str, str, str] | None:
    """Return digest, owner and mode of a file, and when it was written to; ``None`` if it is not there."""
    found = cluster.node.exec("sh", "-c", f"sha256sum < {path} && stat -c '%u:%g %a' {path}", check=False)
    return None if found.returncode else (*found.stdout.split()[:1], *found.stdout.split()[2:])  # type: ignore[return-value]


def files(cluster: Cluster) -> list[Object]:
    """Put the new content into a ConfigMap and a Secret, and return ``spec.files``."""
    config = changes.with_settings(featureGates=None, maxPods=120)(
        (cluster.node.disk / nodefiles.KUBELET_CONFIG.lstrip("/")).read_text()
    )
    space = {"namespace": "nodeupgrade-system"}
    cluster.lab.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubelet", **space}, "data": {"config": config}}
    )
    cluster.lab.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "limits", **space}, "stringData": {"it": DROP_IN}}
    )
    return [
        {
            "path": nodefiles.KUBELET_CONFIG, "mode": "0640", "sha256": _sha256(config),
            "configMapKeyRef": {"name": "kubelet", "key": "config"},
        },
        {"path": LIMITS, "mode": "0644", "sha256": _sha256(DROP_IN), "secretKeyRef": {"name": "limits", "key": "it"}},
    ]  # fmt: skip


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def left_beside(cluster: Cluster) -> list[str]:
    places = (Path(nodefiles.KUBELET_CONFIG).parent, Path(LIMITS).parent)
    return [str(path) for place in places for path in (cluster.node.disk / str(place)[1:]).glob(".*nodeupgrade*")]


def test_control_a_plain_swap_leaves_the_node_without_a_kubelet(cluster: Cluster) -> None:
    """The new kubelet does not start with the old file."""
    node = cluster.node
    told = ("journalctl", "--unit=kubelet", "--no-pager", "--output=cat")
    try:
        node.exec("systemctl", "stop", "kubelet")
        node.install_kubelet(NEW)
        node.exec("systemctl", "start", "kubelet")
        wait_until(
            "the new kubelet's refusal",
            lambda: f"unrecognized feature gate: {GATE}" in node.exec(*told).stdout,
            timeout=120,
            interval=1,
        )
        assert not node.kubelet_healthy()
    finally:
        node.exec("systemctl", "stop", "kubelet")
        node.install_kubelet(OLD)
        node.exec("systemctl", "reset-failed", "kubelet", check=False)
        node.exec("systemctl", "start", "kubelet")
        node.wait_kubelet_healthy()
    cluster.wait_settled()


def test_control_without_the_files_the_new_kubelet_would_not_start(cluster: Cluster) -> None:
    cluster.apply("without", NEW, cluster.pre_staged(NEW), verify=quickly())
    failures = cluster.wait_for_end("without")["status"]["failures"]

    assert [failure["reason"] for failure in failures] == ["KubeletWouldNotStart"]
    assert GATE in failures[0]["message"]
    cluster.delete("without")


def test_a_file_that_the_operator_does_not_allow_is_refused(cluster: Cluster) -> None:
    asked = [*files(cluster), {**files(cluster)[0], "path": "/etc/default/kubelet"}]
    cluster.apply("elsewhere", NEW, cluster.pre_staged(NEW), files=asked)
    cluster.lab.kubectl_wait("wait", "nodeupgrade/elsewhere", "--for=condition=Accepted=False", timeout=60)

    told = conditions(cluster.get("elsewhere"))["Accepted"]
    assert told["reason"] == "NotAllowed"
    assert "the file /etc/default/kubelet" in told["message"]
    cluster.delete("elsewhere")


def test_a_plan_lists_the_files(cluster: Cluster) -> None:
    cluster.apply("plan", NEW, cluster.pre_staged(NEW), action="Plan", files=files(cluster))
    cluster.lab.kubectl_wait("wait", "nodeupgrade/plan", "--for=condition=Planned", timeout=180)

    shown = cluster.task()["status"]["preview"]["files"]
    assert [(file["path"], "before" in file) for file in shown] == [(nodefiles.KUBELET_CONFIG, True), (LIMITS, False)]
    assert present(cluster, LIMITS) is None
    cluster.delete("plan")


def test_a_rollback_puts_the_old_files_back_exactly(cluster: Cluster, tmp_path: Path) -> None:
    before, config = cluster.wait_settled(), present(cluster, nodefiles.KUBELET_CONFIG)
    exits = cluster.pre_staged_file(standin.program(NEW, tmp_path), NEW)

    cluster.apply("back", NEW, exits, verify=quickly(), files=files(cluster))
    cluster.wait_for_end("back")
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "KubeletDidNotStart"), status
    assert {"name": "swap-files", "result": "Undone"}.items() <= next(
        step.items() for step in status["steps"] if step["name"] == "swap-files"
    )
    assert present(cluster, nodefiles.KUBELET_CONFIG) == config
    assert present(cluster, LIMITS) is None
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == OLD
    cluster.wait_without_agent()
    assert left_beside(cluster) == []
    cluster.delete("back")


def test_new_files_come_with_the_new_kubelet_and_nothing_restarts(cluster: Cluster) -> None:
    before = cluster.wait_settled()
    wanted = files(cluster)
    cluster.apply("up", NEW, cluster.pre_staged(NEW), verify=quickly(), files=wanted)
    upgrade = cluster.wait_for_end("up")
    status = cluster.task()["status"]

    assert conditions(upgrade)["Succeeded"]["status"] == "True", status
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == NEW
    assert present(cluster, nodefiles.KUBELET_CONFIG) == (wanted[0]["sha256"], "0:0", "640")
    assert present(cluster, LIMITS) == (wanted[1]["sha256"], "0:0", "644")
    shown = cluster.node.exec("systemctl", "show", "kubelet", "--property=LimitNOFILE", "--value").stdout
    assert shown.strip() == "999999"
    assert [(file["path"], file["after"]) for file in status["kubelet"]["files"]] == [
        (file["path"], file["sha256"]) for file in wanted
    ]
    assert "LimitNOFILE" not in json.dumps(cluster.task())
    cluster.wait_without_agent()
    assert left_beside(cluster) == []
    cluster.delete("up")
