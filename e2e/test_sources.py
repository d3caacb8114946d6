"""A kubelet out of an image that would have its own code run, on a real node: nothing of it is, and the upgrade works.

The control starts the same container without what keeps the image's library out: there it is loaded.
"""

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster import Cluster, Object, apply_upgrade, conditions, disturbed, quickly
from e2e.lab.binaries import components
from e2e.lab.cluster import deploy, images
from e2e.lab.process import CommandError, wait_until
from e2e.looks import planned

OLD, NEW = "1.30.14", "1.33.13"
PODS = 6
LOADED = "the library of the image was loaded"
_LIBRARY = """
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { write(2, TEXT "\\n", sizeof TEXT); }
unsigned la_version(unsigned version) { write(2, TEXT "\\n", sizeof TEXT); return version; }
"""


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


@pytest.fixture(scope="module")
def artifact(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Object:
    image = images.hostile(components.resolve("kubelet", NEW), NEW, library(tmp_path_factory.mktemp("library")))
    deploy.import_pinned(cluster.lab, image, [cluster.node.name])
    return {"image": {"ref": image.pinned, "path": "/kubelet"}}


def library(directory: Path) -> Path:
    """Compile a library that says so when it is loaded."""
    built = directory / "hostile.so"
    options = ("-shared", "-fPIC", f'-DTEXT="{LOADED}"', "-x", "c", "-", "-o", str(built))
    subprocess.run(["cc", *options], input=_LIBRARY.encode(), check=True)
    return built


def artifact_pod(cluster: Cluster) -> Object:
    """Wait for the pod that has taken the kubelet out of its image."""

    def running() -> Object | None:
        labels = "app.kubernetes.io/component=artifact"
        pods = cluster.lab.api.list("pods", namespace=deploy.NAMESPACE, labels=labels)
        return next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)

    return wait_until("the artifact's pod", running, timeout=180, interval=0.2)


def logs(cluster: Cluster, pod: str) -> str:
    return cluster.lab.kubectl("logs", "-n", deploy.NAMESPACE, pod, "-c", "artifact").stdout


def test_nothing_of_the_image_is_loaded(cluster: Cluster, artifact: Object) -> None:
    cluster.apply("hostile-plan", NEW, artifact, action="Plan", verify=quickly())
    pod = artifact_pod(cluster)
    said = logs(cluster, pod["metadata"]["name"])
    upgrade = planned(cluster, "hostile-plan")

    assert conditions(upgrade)["Planned"]["reason"] == "PlanReady", cluster.task()["status"]
    assert said.endswith("/staging/kubelet\n"), said
    assert LOADED not in said
    assert "preload" not in said

    cluster.wait_without_agent()
    control = unprotected(pod)
    cluster.lab.kubectl("apply", "-f", "-", input=json.dumps(control))
    name = control["metadata"]["name"]
    wait_until("the control", lambda: LOADED in logs(cluster, name) or None, timeout=120)
    cluster.lab.kubectl("delete", "pod", "-n", deploy.NAMESPACE, name, "--wait=true", timeout=120)
    cluster.delete("hostile-plan")


def unprotected(pod: Object) -> Object:
    """Return the same pod without what keeps libraries of the image out."""
    spec = copy.deepcopy(pod["spec"])
    for container in spec["initContainers"]:
        container.pop("env", None)
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["mountPath"] != "/etc/ld.so.preload"]
    spec.pop("serviceAccount", None)
    metadata = {"name": "control", "namespace": deploy.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_path_of_the_kernel_is_refused(cluster: Cluster, artifact: Object) -> None:
    evil = {"image": {**artifact["image"], "path": "/proc/1/root/kubelet"}}
    with pytest.raises(CommandError, match="must not be in /proc"):
        apply_upgrade(cluster.lab, "evil", OLD, {"artifact": evil, "nodes": {"names": [cluster.node.name]}})


def test_a_link_to_it_is_refused_where_it_is_followed(cluster: Cluster, artifact: Object) -> None:
    evil = {"image": {**artifact["image"], "path": "/link"}}
    cluster.apply("evil-link", NEW, evil, action="Plan")

    def told() -> str | None:
        states = conditions(cluster.get("evil-link"))
        return next((c["message"] for c in states.values() if "/proc/1/root" in c.get("message", "")), None)

    assert "cannot copy /link" in wait_until("the refusal", told, timeout=180)
    # It is tried again until spec.timeouts.node, and a NodeUpgrade waits for its nodes in flight.
    cluster.lab.kubectl("patch", "nodeupgrade", "evil-link", "--type=merge", "-p", '{"spec": {"action": "Abort"}}')
    cluster.delete("evil-link")


def test_that_pod_has_nothing_of_the_node(cluster: Cluster, artifact: Object) -> None:
    before = cluster.wait_settled()
    cluster.apply("hostile", NEW, artifact, verify=quickly())
    pod = artifact_pod(cluster)["spec"]
    upgrade = cluster.wait_for_end("hostile")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", cluster.task()["status"]
    assert cluster.kubelet_version() == NEW
    assert [str(d) for d in disturbed(before, cluster.wait_settled())] == []
    assert not {"hostPID", "hostNetwork", "hostIPC"} & {name for name, value in pod.items() if value is True}
    assert pod["automountServiceAccountToken"] is False
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {"emptyDir"}
    cluster.wait_without_agent()
    cluster.delete("hostile")
