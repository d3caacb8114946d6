"""Real kubelets store the hashes that kubelethash computes: one node for every available era and version."""

from collections.abc import Iterator

import pytest

from e2e.conftest import CONTROL_PLANE
from e2e.lab import Lab, LabSpec, workload
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from nodeupgrade.kubelethash import KubeletVersion, detect, hash_container

KUBELETS = ("1.15.0", "1.17.17", "1.20.15", "1.30.14", "1.33.13")
PODS = 12
NAME = "e2e-hashes"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    for stale in (lab for lab in Lab.list() if lab.name == NAME):
        stale.down()
    lab = Lab.up(LabSpec(name=NAME, nodes=0, control_plane=CONTROL_PLANE), Lines())
    try:
        workload.start(lab, workload.mixed_workload(0))
        yield lab
    finally:
        lab.down()


@pytest.mark.parametrize("kubelet", KUBELETS)
def test_stored_hashes_are_reproduced(lab: Lab, kubelet: str) -> None:
    node = lab.add_node(f"node-{kubelet.replace('.', '-')}", kubelet=kubelet)
    # Pods that are bound before the kubelet has reported the node's capacity are rejected for good.
    wait_until("the node", lambda: lab.node_readiness().get(node.name) or None, timeout=240, interval=0.5)
    pods = [o for o in workload.mixed_workload(PODS, node.name, kubelet=kubelet) if o["kind"] == "Pod"]
    lab.apply(*(_renamed(pod, f"{pod['metadata']['name']}-{kubelet.replace('.', '-')}") for pod in pods))
    here = ["get", "pods", "--namespace", workload.NAMESPACE, f"--field-selector=spec.nodeName={node.name}"]
    wait_until("the pods", lambda: _run(lab.kubectl_json(*here)["items"]) or None, timeout=300, interval=1)
    specs = {
        (pod["metadata"]["uid"], container["name"]): container
        for pod in lab.kubectl_json(*here)["items"]
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    }

    stored = {
        (c.pod, c.name): (specs[c.pod_uid, c.name], c.stored_hash)
        for c in node.snapshot().containers
        if (c.pod_uid, c.name) in specs
    }
    node.power_cut()  # makes room for the next one

    assert len(stored) > PODS
    assert {key: hash_container(spec, kubelet) for key, (spec, _) in stored.items()} == {
        key: found for key, (_, found) in stored.items()
    }
    series = {version.series for version in detect(list(stored.values()))}
    assert KubeletVersion.parse(kubelet).series in series


def _run(pods: list[workload.Object]) -> bool:
    return len(pods) == PODS and all(pod["status"].get("phase") == "Running" for pod in pods)


def _renamed(pod: workload.Object, name: str) -> workload.Object:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}
