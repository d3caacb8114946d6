"""What real kubelets stored is what kubelethash computes, for one node of every era and version at hand."""

from collections.abc import Iterator

import pytest

from e2e.conftest import CONTROL_PLANE
from e2e.lab import Lab, LabSpec, workload
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
        for number, kubelet in enumerate(KUBELETS, start=1):
            lab.add_node(f"node{number}", kubelet=kubelet)
        lab.wait_ready()
        first = workload.mixed_workload(0, kubelet="1.15.0")
        workload.start(lab, first)
        for number, kubelet in enumerate(KUBELETS, start=1):
            objects = workload.mixed_workload(PODS, f"node{number}", kubelet=kubelet)
            lab.apply(*(_renamed(o, f"{o['metadata']['name']}-on-{number}") for o in objects if o["kind"] == "Pod"))
        workload.wait_running(lab, count=PODS * len(KUBELETS), timeout=600)
        yield lab
    finally:
        lab.down()


@pytest.mark.parametrize(("number", "kubelet"), enumerate(KUBELETS, start=1), ids=KUBELETS)
def test_stored_hashes_are_reproduced(lab: Lab, number: int, kubelet: str) -> None:
    pods = lab.kubectl_json("get", "pods", "--namespace", workload.NAMESPACE)["items"]
    specs = {
        (pod["metadata"]["uid"], container["name"]): container
        for pod in pods
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    }

    stored = {
        (c.pod, c.name): (specs[c.pod_uid, c.name], c.stored_hash)
        for c in lab.node(f"node{number}").snapshot().containers
        if (c.pod_uid, c.name) in specs
    }

    assert len(stored) > PODS
    assert {key: hash_container(spec, kubelet) for key, (spec, _) in stored.items()} == {
        key: found for key, (_, found) in stored.items()
    }
    series = {version.series for version in detect(list(stored.values()))}
    assert KubeletVersion.parse(kubelet).series in series


def _renamed(pod: workload.Object, name: str) -> workload.Object:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}
