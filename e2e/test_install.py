"""As a stranger would: install by the pages' commands, upgrade a node, uninstall, and nothing is left.

The two ways of installing take turns on one node. That something would be left without the cleanup is the control.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import pages
from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.conftest import MakeLab
from e2e.faults.oracle import left_over
from e2e.lab import Lab, images, workload
from e2e.lab.process import run, wait_until
from e2e.lab.programs import helm
from tools import generate_chart
from tools.release.manifests import ImageName, rendered

OLD, NEW = "1.30.14", "1.33.13"
NAMESPACE = "nodeupgrade-system"
REPOSITORY = "registry.example.com/nodeupgrade"
PODS = 8
BUSY = ("dev", "proc", "run", "sys", "tmp", "var/lib/containerd", "var/lib/kubelet", "var/lib/systemd", "var/log")
"""Directories below a node's root to which it writes all the time; what is left in /run is looked for by name."""
NEVER = {"windows": [{"start": "0 0 29 2 *", "duration": "1h"}]}
_SECONDS = 600


class Stranger:
    """Types commands into a terminal whose directory has what a release and a checkout have.

    Args:
        cluster: the cluster that kubectl and helm talk to.
        directory: that of the terminal.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        for name, target in (
            ("bin/helm", helm()),
            ("bin/kubectl", cluster.lab.kubectl_binary),
            ("bin/kubectl-nodeupgrade", pages.CHECKOUT / ".venv/bin/kubectl-nodeupgrade"),
            ("charts", pages.CHECKOUT / "charts"),
        ):
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).symlink_to(target)
        image = ImageName(repository=REPOSITORY, tag=generate_chart.version())
        for file, text in rendered(image):
            (directory / file).write_text(text)

    def follow(self, tag: str, **names: str) -> None:
        """Run the pages' commands with a tag; each must succeed."""
        found = pages.commands(tag)
        assert found, tag
        for command in found:
            for name, value in names.items():
                command = command.replace(name, value)  # noqa: PLW2901
            path = f"{self._directory}/bin:{os.environ['PATH']}"
            shell = ("env", f"PATH={path}", f"HOME={self._directory}", "sh", "-euc", command)
            run(*self._cluster.lab.command(*shell), cwd=self._directory, timeout=_SECONDS)


def paths(cluster: Cluster) -> set[str]:
    """Return every file and directory of the node, except where it writes all the time."""
    found: set[str] = set()
    for directory, names, plain in os.walk(cluster.node.disk):
        place = Path(directory).relative_to(cluster.node.disk)
        names[:] = [name for name in names if str(place / name) not in BUSY]
        found |= {str(place / name) for name in (*names, *plain)}
    return found


def objects(lab: Lab) -> set[str]:
    """Return every object that is ours by its name, of whatever kind."""
    kinds = lab.kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    wanted = ",".join(kind for kind in kinds if kind.partition(".")[0] not in {"events", "componentstatuses"})
    listed = lab.kubectl("get", wanted, "--all-namespaces", "--output=name", timeout=180).stdout.split()
    return {name for name in listed if "nodeupgrade" in name}


@pytest.fixture(scope="module")
def cluster(make_lab: MakeLab) -> Cluster:
    """A node with pods and the image, as a registry would give it, and nothing of ours besides."""
    lab = make_lab("e2e-install", OLD)
    cluster = Cluster(lab, lab.node("node1"))
    image = images.operator()
    lab.import_image(image.archive)
    pulled = f"{REPOSITORY}:{generate_chart.version()}"
    cluster.node.exec("ctr", "--namespace", "k8s.io", "images", "tag", image.tagged, pulled)
    workload.start(lab, workload.mixed_workload(PODS, cluster.node.name, kubelet=OLD))
    workload.wait_running(lab, count=PODS, timeout=600)
    return cluster


@pytest.fixture
def stranger(cluster: Cluster, tmp_path: Path) -> Stranger:
    return Stranger(cluster, tmp_path)


@pytest.fixture
def without_trace(cluster: Cluster) -> Iterator[None]:
    """Assert that what is installed in the body is gone in the end, from the cluster and from the node."""
    for version in (OLD, NEW):
        cluster.pre_staged(version)
    on_disk, ran, node = paths(cluster), cluster.wait_settled(), cluster.node_object()
    assert objects(cluster.lab) == set(), "nothing is installed yet"
    yield
    wait_until("the end of all our objects", lambda: not objects(cluster.lab) or None, timeout=180, interval=2)
    assert paths(cluster) - on_disk == set()
    assert on_disk - paths(cluster) == set()
    assert left_over(cluster.node) == []
    assert disturbed(ran, cluster.wait_settled()) == []
    after = cluster.node_object()
    assert after["metadata"].get("labels") == node["metadata"].get("labels") or cluster.kubelet_version() != OLD
    assert [key for key in after["metadata"].get("annotations", {}) if "nodeupgrade" in key] == []
    assert after["spec"].get("taints") == node["spec"].get("taints")
    assert cluster.schedulable()


def upgraded(cluster: Cluster, version: str) -> None:
    """Upgrade the node with what is installed, and see that something of it is left on the node: the control."""
    cluster.apply("first", version, cluster.pre_staged(version), allowDowngrade=True, verify=quickly())
    upgrade = cluster.wait_for_end("first")
    assert conditions(upgrade)["Succeeded"]["status"] == "True", upgrade["status"]
    assert cluster.kubelet_version() == version
    assert (cluster.node.disk / "usr/bin/.kubelet.nodeupgrade-previous").exists()
    assert (cluster.node.disk / "var/lib/nodeupgrade/runs").exists()


def waiting(cluster: Cluster, name: str, version: str) -> None:
    """Apply a NodeUpgrade that has begun and whose window does not open."""
    cluster.apply(name, version, cluster.pre_staged(version), allowDowngrade=True, **NEVER)
    wait_until("its finalizer", lambda: cluster.get(name)["metadata"].get("finalizers"), timeout=120)


@pytest.mark.usefixtures("without_trace")
def test_with_helm(cluster: Cluster, stranger: Stranger) -> None:
    stranger.follow("helm")
    stranger.follow("all")
    waiting(cluster, "waiting", NEW)
    stranger.follow("upgrade", NAME="waiting")
    cluster.delete("waiting")

    upgraded(cluster, NEW)
    without_an_operator_a_deletion_hangs(cluster, stranger)

    stranger.follow("uninstall")
    stranger.follow("uninstall-helm")


def without_an_operator_a_deletion_hangs(cluster: Cluster, stranger: Stranger) -> None:
    waiting(cluster, "hanging", OLD)
    scale = ("--namespace", NAMESPACE, "scale", "deployment/nodeupgrade-operator")
    replicas = cluster.lab.kubectl_json("--namespace", NAMESPACE, "get", "deployment", "nodeupgrade-operator")
    cluster.lab.kubectl(*scale, "--replicas=0")
    labels = "--selector=app.kubernetes.io/name=nodeupgrade-operator"
    cluster.lab.kubectl("--namespace", NAMESPACE, "wait", "pods", labels, "--for=delete", timeout=180)
    cluster.lab.kubectl("delete", "nodeupgrade", "hanging", "--wait=false")
    assert cluster.get("hanging")["metadata"]["deletionTimestamp"]

    stranger.follow("hanging", NAME="hanging")

    left = cluster.lab.kubectl("get", "nodeupgrade", "hanging", "--ignore-not-found", "--output=name").stdout
    assert left == ""
    cluster.lab.kubectl(*scale, f"--replicas={replicas['spec']['replicas']}")


@pytest.mark.usefixtures("without_trace")
def test_with_one_file(cluster: Cluster, stranger: Stranger) -> None:
    stranger.follow("file")
    stranger.follow("all")
    upgraded(cluster, OLD if cluster.kubelet_version() == NEW else NEW)
    stranger.follow("uninstall")
    a_node_is_not_cleaned_while_a_run_may_need_it(cluster, stranger)


def a_node_is_not_cleaned_while_a_run_may_need_it(cluster: Cluster, stranger: Stranger) -> None:
    """A unit of ours stands for a run that is not over; once it is gone, the cleanup ends by itself."""
    unit = cluster.node.disk / "etc/systemd/system/nodeupgrade-executor.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    cleanup = next(text for name, text in rendered(ImageName(repository=REPOSITORY, tag=generate_chart.version()))
                   if name == "cleanup.yaml")  # fmt: skip
    cluster.lab.kubectl("apply", "--server-side", "--filename=-", input=cleanup)

    def refusal() -> str | None:
        pods = cluster.lab.kubectl_json(
            "--namespace", NAMESPACE, "get", "pods", "--selector=app.kubernetes.io/name=nodeupgrade-cleanup"
        )["items"]
        text = json.dumps([pod["status"].get("initContainerStatuses", []) for pod in pods])
        return text if "is still there" in text else None

    wait_until("the refusal of the cleanup", refusal, timeout=180)
    assert (cluster.node.disk / "usr/bin/.kubelet.nodeupgrade-previous").exists()
    unit.unlink()
    stranger.follow("uninstall-file")
