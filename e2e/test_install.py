"""As a stranger would: by the pages' commands, from README.md to a first upgraded node, and back to nothing.

Images are built, pushed and pulled as the pages say; the registry is the lab's. The two ways of installing take turns
on one node: the first from a registry that anybody may use, the other from one that asks for a password. That something
would be left without the cleanup, and that the password is needed, are the controls. Run by hand, ten minutes:
`pytest -m slow e2e/test_install.py`.
"""

import contextlib
import json
import time
from collections.abc import Iterator

import pytest

from e2e import pages
from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.conftest import MakeLab
from e2e.faults.oracle import left_over
from e2e.lab import Lab
from e2e.lab.cluster.registry import NAME, Registry
from e2e.lab.errors import LabError
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from e2e.terminal import Terminal
from e2e.traces import Traces, differences, traces
from tools import generate_chart

OLD, NEW = "1.30.14", "1.33.13"
NAMESPACE = "nodeupgrade-system"
PODS = 8
STAYS = {
    "file /usr/bin/kubelet": "the new kubelet",
}
"""What is different on a node after an uninstallation, and what docs/upgrade-and-uninstall.md calls it."""
EXAMPLE = "sha256:3e3d8dda534298dcc590958a68008af8b2f343fc5d6367e7d2ca4f0ef3855791"
"""Where README.md has the digest of a kubelet's image."""
NEVER = {"windows": [{"start": "0 0 29 2 *", "duration": "1h"}]}


def objects(lab: Lab) -> set[str]:
    """Return every object that is ours by its name, of whatever kind."""
    kinds = lab.kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    wanted = ",".join(kind for kind in kinds if kind.partition(".")[0] not in {"events", "componentstatuses"})
    listed = lab.kubectl("get", wanted, "--all-namespaces", "--output=name", timeout=180).stdout.split()
    return {name for name in listed if "nodeupgrade" in name}


@pytest.fixture(scope="module")
def cluster(make_lab: MakeLab) -> Cluster:
    """A node with pods, and nothing of ours."""
    lab = make_lab("e2e-install", OLD)
    cluster = Cluster(lab, lab.node("node1"))
    workload.start(lab, workload.mixed_workload(PODS, cluster.node.name, kubelet=OLD))
    workload.wait_running(lab, count=PODS, timeout=600)
    return cluster


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Registry:
    """A registry that the node trusts; anybody may use it."""
    registry = Registry(cluster.lab)
    registry.start()
    registry.introduce(cluster.node)
    return registry


@pytest.fixture(scope="module")
def terminal(cluster: Cluster, registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """The stranger's; what the internet would give is there already."""
    terminal = Terminal(cluster.lab, registry, tmp_path_factory.mktemp("stranger") / "checkout")
    terminal.provide()
    terminal.download(NEW)
    return terminal


def left_on(cluster: Cluster, before: Traces) -> dict[str, str]:
    """Return what is different on the node, once the kubelet has removed what belonged to our pods."""

    def different() -> dict[str, str]:
        found = differences(before, traces(cluster.node))
        return {name: how for name, how in found.items() if name not in STAYS}

    with contextlib.suppress(LabError):
        wait_until("a node without a trace", lambda: not different(), timeout=90, interval=3)
    return different()


def test_what_stays_is_on_the_page() -> None:
    page = (pages.CHECKOUT / "docs/upgrade-and-uninstall.md").read_text(encoding="utf-8")
    table = page.partition("## What stays on a node")[2]
    assert [name for name in STAYS.values() if f"| {name} |" not in table] == []


@pytest.fixture
def without_trace(cluster: Cluster, registry: Registry) -> Iterator[None]:
    """Assert that what is installed in the body is gone in the end, from the cluster and from the node."""
    assert registry.directory.exists(), "the node knows it already"
    for version in (OLD, NEW):
        cluster.pre_staged(version)
    ran, node, there = cluster.wait_settled(), cluster.node_object(), traces(cluster.node)
    assert objects(cluster.lab) == set(), "nothing is installed yet"
    yield
    wait_until("the end of all our objects", lambda: not objects(cluster.lab) or None, timeout=180, interval=2)
    assert left_on(cluster, there) == {}
    assert left_over(cluster.node) == []
    assert disturbed(ran, cluster.wait_settled()) == []
    after = cluster.node_object()
    assert after["metadata"].get("labels") == node["metadata"].get("labels") or cluster.kubelet_version() != OLD
    assert [key for key in after["metadata"].get("annotations", {}) if "nodeupgrade" in key] == []
    assert after["spec"].get("taints") == node["spec"].get("taints")
    assert cluster.schedulable()


def waiting(cluster: Cluster, name: str, version: str) -> None:
    """Apply a NodeUpgrade that has begun and whose window does not open."""
    cluster.apply(name, version, cluster.pre_staged(version), allowDowngrade=True, **NEVER)
    wait_until("its finalizer", lambda: cluster.get(name)["metadata"].get("finalizers"), timeout=120)


def pulled(cluster: Cluster) -> set[str]:
    """Return the names of the node's images that came from the registry."""
    listed = cluster.node.exec("ctr", "--namespace", "k8s.io", "images", "list", "--quiet").stdout.split()
    return {name for name in listed if name.startswith(NAME)}


@pytest.mark.slow
@pytest.mark.usefixtures("without_trace")
def test_from_the_readme_to_a_first_upgraded_node_with_helm(cluster: Cluster, terminal: Terminal) -> None:
    ran, began = cluster.wait_settled(), time.monotonic()
    assert pulled(cluster) == set()
    terminal.follow("image")
    built = time.monotonic()
    terminal.follow("helm")
    terminal.follow("kubelet")
    kubelet = (terminal.directory / "kubelet.digest").read_text().strip()
    terminal.save("first-node.yaml", {EXAMPLE: kubelet, "node-17": cluster.node.name})
    terminal.follow("first-node")
    ended = time.monotonic()
    print(
        f"\nfrom README.md to a first upgraded node: {ended - began:.0f} s, {built - began:.0f} s of it for the image"
    )
    assert cluster.kubelet_version() == NEW
    assert disturbed(ran, cluster.wait_settled()) == []
    assert {name.rpartition("/")[2] for name in pulled(cluster)} >= {
        f"nodeupgrade:{generate_chart.version()}",
        f"kubelet@{kubelet}",
    }

    terminal.follow("all")
    waiting(cluster, "waiting", OLD)
    terminal.follow("upgrade", NAME="waiting")
    cluster.delete("waiting")
    without_an_operator_a_deletion_hangs(cluster, terminal)

    something_is_left(cluster)
    terminal.follow("uninstall")
    terminal.follow("uninstall-helm")


def something_is_left(cluster: Cluster) -> None:
    """The control of the cleanup."""
    assert (cluster.node.disk / "usr/bin/.kubelet.nodeupgrade-previous").exists()
    assert (cluster.node.disk / "var/lib/nodeupgrade/runs").exists()


def without_an_operator_a_deletion_hangs(cluster: Cluster, terminal: Terminal) -> None:
    waiting(cluster, "hanging", OLD)
    scale = ("--namespace", NAMESPACE, "scale", "deployment/nodeupgrade-operator")
    replicas = cluster.lab.api.get("deployments", "nodeupgrade-operator", namespace=NAMESPACE)
    cluster.lab.kubectl(*scale, "--replicas=0")
    labels = "--selector=app.kubernetes.io/name=nodeupgrade-operator"
    cluster.lab.kubectl("--namespace", NAMESPACE, "wait", "pods", labels, "--for=delete", timeout=180)
    cluster.lab.kubectl("delete", "nodeupgrade", "hanging", "--wait=false")
    assert cluster.get("hanging")["metadata"]["deletionTimestamp"]

    terminal.follow("hanging", NAME="hanging")

    left = cluster.lab.kubectl("get", "nodeupgrade", "hanging", "--ignore-not-found", "--output=name").stdout
    assert left == ""
    cluster.lab.kubectl(*scale, f"--replicas={replicas['spec']['replicas']}")


@pytest.mark.slow
@pytest.mark.usefixtures("without_trace")
def test_with_one_file_from_a_registry_with_a_password(
    cluster: Cluster, registry: Registry, terminal: Terminal
) -> None:
    """Also by digests only: install.yaml names the image by its digest, as a NodeUpgrade names the kubelet's."""
    if not (terminal.directory / "image.digest").exists():
        terminal.follow("image")
    version = OLD if cluster.kubelet_version() == NEW else NEW
    terminal.download(version)
    terminal.type("rm", "-rf", "kubelet-image")
    terminal.follow("kubelet")
    image, kubelet = (f"{NAME}/{name}" for name in (digest(terminal, "nodeupgrade"), digest(terminal, "kubelet")))
    for name in pulled(cluster):
        cluster.node.exec("ctr", "--namespace", "k8s.io", "images", "remove", "--sync", name)
    registry.start(password=True)
    for name in (image, kubelet):
        asked = cluster.node.exec("ctr", "--namespace", "k8s.io", "images", "pull", name, check=False)
        assert asked.returncode != 0, "the control of the password"
        assert "authorization" in asked.stderr or "401" in asked.stderr, asked.stderr

    terminal.follow("file")
    terminal.follow("private")
    terminal.follow("all")
    artifact = {"image": {"ref": kubelet, "path": "/kubelet", "pullSecret": "registry"}}
    cluster.apply("first", version, artifact, allowDowngrade=True, verify=quickly())
    upgrade = cluster.wait_for_end("first")
    assert conditions(upgrade)["Succeeded"]["status"] == "True", upgrade["status"]
    assert cluster.kubelet_version() == version
    assert pulled(cluster) >= {image, kubelet}

    something_is_left(cluster)
    terminal.follow("uninstall")
    a_node_is_not_cleaned_while_a_run_may_need_it(cluster, terminal)


def digest(terminal: Terminal, name: str) -> str:
    """Return the name by digest of what the terminal has pushed."""
    file = {"nodeupgrade": "image.digest", "kubelet": "kubelet.digest"}[name]
    return f"{name}@{(terminal.directory / file).read_text().strip()}"


def a_node_is_not_cleaned_while_a_run_may_need_it(cluster: Cluster, terminal: Terminal) -> None:
    """A unit of ours stands for a run that is not over; once it is gone, the cleanup ends by itself."""
    unit = cluster.node.disk / "etc/systemd/system/nodeupgrade-executor.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    cluster.lab.kubectl("apply", "--server-side", "--filename", str(terminal.directory / "dist/cleanup.yaml"))

    def refusal() -> str | None:
        labels = "app.kubernetes.io/name=nodeupgrade-cleanup"
        pods = cluster.lab.api.list("pods", namespace=NAMESPACE, labels=labels)
        text = json.dumps([pod["status"].get("initContainerStatuses", []) for pod in pods])
        return text if "is still there" in text else None

    wait_until("the refusal of the cleanup", refusal, timeout=180)
    assert (cluster.node.disk / "usr/bin/.kubelet.nodeupgrade-previous").exists()
    unit.unlink()
    terminal.follow("uninstall-file")
