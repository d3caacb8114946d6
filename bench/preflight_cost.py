"""How long preflight takes for 110 pods of every kind: gathering on a simulated node, and judging.

`make bench` runs it; it fails when judging misses its target. `e2e.bench` measures the whole on a real node.
"""
# ruff: noqa: INP001 - a script, not part of a package

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.check_catalogue import ALL_CHECKS
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.traffic import Clients
from nodeupgrade.node.examination.planning import examine
from nodeupgrade.node.facts import gather
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.plan.request import Replacement, RunRequest
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.doubles.node import SimulatedNode, manifest, pod_json
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.kubelet import program

OLD, NEW = "v1.30.14", "v1.33.13"
PODS, STATIC = 110, 4
SECONDS = 1.0
"""For everything that is judged and planned; the rest of the three seconds for all is for reading the node."""
STAGED = PurePosixPath("/usr/bin/.kubelet.staged")
ROOM = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "250"}
PROBE = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 10}

T = TypeVar("T")


def kinds() -> tuple[Callable[[str], Json], ...]:
    """Return one function for each kind of pod."""
    amounts = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}
    return (
        lambda name: pod_json(name, "main"),
        lambda name: with_fields(pod_json(name, "main", "log"), owner),
        lambda name: pod_json(name, "main", sidecars=("proxy",)),
        lambda name: pod_json(name, "main", ephemeral=("debug",)),
        lambda name: pod_json(name, "main", restart_policy="Never"),
        lambda name: with_fields(pod_json(name, "main"), {}, readinessProbe=PROBE, livenessProbe=PROBE),
        lambda name: with_fields(pod_json(name, "main"), {}, startupProbe=PROBE, readinessProbe=PROBE),
        lambda name: with_fields(pod_json(name, "main"), {}, resources=amounts),
    )


def with_fields(pod: Json, metadata: Json, **container: Any) -> Json:
    """Return a pod with more metadata, and with more fields of its containers."""
    containers = [{**each, **container} for each in pod["spec"]["containers"]]
    return {**pod, "metadata": {**pod["metadata"], **metadata}, "spec": {**pod["spec"], "containers": containers}}


def served(pod: Json, inventory: Inventory) -> Json:
    """Return a pod as the API serves it once it is ready."""
    running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {}}}
    ids = {each.name: each.id for each in inventory.running() if each.pod.name == pod["metadata"]["name"]}
    statuses = [
        {"name": each["name"], "containerID": f"containerd://{ids[each['name']]}", **running}
        for each in pod["spec"]["containers"]
    ]
    ready = {"type": "Ready", "status": "True"}
    return {**pod, "status": {"phase": "Running", "conditions": [ready], "containerStatuses": statuses}}


def requested(node: SimulatedNode) -> RunRequest:
    """Return the request for an upgrade."""
    run = RunId("run-1")
    spec = TaskSpec(
        node_name=NodeName(node.name),
        node_uid="node-uid",
        upgrade_ref=UpgradeRef(name="upgrade", uid="upgrade-uid"),
        run_id=run,
        from_version=OLD,
        to_version=NEW,
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=str(STAGED)),
    )
    node.disk[str(STAGED)] = program(NEW)
    replacement = Replacement(program=STAGED, digest=node.files.digest(STAGED))
    return RunRequest(
        spec=spec,
        run_id=run,
        namespace="nodeupgrade-system",
        replacement=replacement,
        staged=str(STAGED),
        backup="/usr/bin/.before",
    )


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that some work takes, and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def main() -> int:
    """Measure and print."""
    made = kinds()
    created = [made[number % len(made)](f"pod-{number}") for number in range(PODS - STATIC)]
    static = {f"static-{number}.yaml": manifest(f"static-{number}", "main") for number in range(STATIC)}
    node = SimulatedNode(version=OLD, pods=created, manifests=static)
    pods = [served(pod, node.inventory()) for pod in created]
    request, running = requested(node), gather.running_kubelet(node.services, node.kubelet, "kubelet.service")
    layout = replace(gather.kubelet_layout(node.files, running), manifests=MANIFESTS)
    shown = {
        "metadata": {"name": node.name, "uid": "node-uid", "resourceVersion": "1", "labels": {}},
        "status": {"capacity": ROOM, "allocatable": ROOM},
    }
    gathering, facts = timed(
        lambda: gather.gather(node.ports, running, request, node_object=shown, pods=pods, clients=Clients())
    )
    facts = replace(facts, readiness=replace(facts.readiness, cgroup_v2=True))
    checking, _ = timed(lambda: (registry.preflight(facts), registry.warnings(facts)))
    examining, found = timed(lambda: examine(request, facts, layout, read_manifests(node.files, layout)))
    if found.plan is None:
        sys.exit(f"error: {len(found.refusals)} findings, first {found.refusals[0]}")
    containers = len(found.plan.containers)
    print(f"preflight, {PODS} pods with {containers} containers, {len(ALL_CHECKS)} checks, on a simulated node:")
    print(f"  gathering {gathering:.2f} s; {len(registry.CHECKS) + len(registry.WARNINGS)} checks {checking:.2f} s")
    print(f"  judging, proving all hashes and planning {examining:.2f} s, at most {SECONDS:.0f} s")
    return 0 if examining <= SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
