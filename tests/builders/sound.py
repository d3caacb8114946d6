"""A sound node, from which each test makes one with a single defect."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.run_settings import KubeletSettings, ShieldPolicy, VerifySettings
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import ContainerId, Digest, MonotonicSeconds, NodeName, PodRef, PodUid, RunId, SandboxId
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.flags import Arguments
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import HashValue, KubeletVersion, hash_container
from nodeupgrade.node.checks.facts import KubeletFacts, NodeFacts
from nodeupgrade.node.checks.startup import Readiness
from nodeupgrade.node.checks.traffic import Traffic
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from nodeupgrade.node.plan.request import Replacement, RunRequest
from nodeupgrade.node.runtimes.containerd.containerd import CONTAINERD
from nodeupgrade.node.runtimes.containerd.restart_hazards import find_hazards
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RuntimeAsFound,
    RuntimeAtWork,
    RuntimeInfo,
    RuntimePlaces,
    RuntimeProcess,
    RuntimeSocket,
)
from nodeupgrade.node.runtimes.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    SandboxInstance,
    StoredHashes,
)
from tests.doubles.node.calls import Calls
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

OLD, NEW = KubeletVersion.parse("v1.30.14"), KubeletVersion.parse("v1.33.13")
WEB = PodRef(namespace="default", name="web", uid=PodUid("uid-web"))
SPEC: dict[str, Any] = {
    "name": "nginx",
    "image": "nginx:1",
    "resources": {"requests": {"cpu": "100m"}},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


STATUS = {
    "capacity": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", "hugepages-2Mi": "0"},
    "allocatable": {"cpu": "4", "memory": "8092Mi", "ephemeral-storage": "90Gi", "pods": "110", "hugepages-2Mi": "0"},
}
"""What a node has, with a kubelet that reserves nothing."""


def pod(ref: PodRef = WEB, **spec: Any) -> dict[str, Any]:
    """A pod as the API serves it."""
    return {
        "metadata": {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid},
        "spec": {"containers": [SPEC], **spec},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


def instance(
    value: str | None,
    *,
    name: str = "nginx",
    ref: PodRef = WEB,
    state: ContainerState = ContainerState.RUNNING,
    without_resources: str | None = None,
) -> ContainerInstance:
    """A container as the runtime has it, with a stored hash."""
    return ContainerInstance(
        id=ContainerId(f"id-{ref.name}-{name}"),
        name=name,
        sandbox_id=SandboxId(f"sandbox-{ref.uid}"),
        pod=ref,
        state=state,
        attempt=0,
        created_at=1,
        hashes=StoredHashes(
            container=None if value is None else HashValue(value),
            without_resources=None if without_resources is None else HashValue(without_resources),
        ),
        process=Process(pid=7, started=1) if state is ContainerState.RUNNING else None,
    )


def sandbox(ref: PodRef = WEB, **fields: Any) -> SandboxInstance:
    """The sandbox of a pod."""
    known: dict[str, Any] = {
        "id": SandboxId(f"sandbox-{ref.uid}"),
        "pod": ref,
        "ready": True,
        "attempt": 0,
        "created_at": 1,
        "host_network": False,
        "ip": "10.0.0.7",
        "config_source": "api",
    }
    return SandboxInstance(**{**known, **fields})


def inventory(*containers: ContainerInstance, sandboxes: tuple[SandboxInstance, ...] | None = None) -> Inventory:
    """What a runtime holds; each pod has one sound sandbox unless told otherwise."""
    made = tuple(sandbox(ref) for ref in dict.fromkeys(c.pod for c in containers)) if sandboxes is None else sandboxes
    return Inventory(containers=containers, sandboxes=made)


def unit(name: str, **fields: Any) -> UnitStatus:
    """A running unit."""
    known: dict[str, Any] = {
        "load_state": "loaded",
        "active_state": "active",
        "sub_state": "running",
        "main_pid": 7,
        "kill_mode": "process",
    }
    return UnitStatus(name=name, **{**known, **fields})


def kubelet(**fields: Any) -> KubeletFacts:
    """A kubelet that can be replaced."""
    known: dict[str, Any] = {
        "unit": unit("kubelet.service", program="/usr/bin/kubelet"),
        "program": "/usr/bin/kubelet",
        "started": "/usr/bin/kubelet",
        "words": (),
        "current": OLD,
        "before": Digest("0" * 64),
        "staged_version": str(NEW),
        "staged_output": f"Kubernetes {NEW}",
        "staged_is_elf": True,
        "after": Digest("1" * 64),
        "arguments": Arguments(words=(), removed=()),
        "arguments_status": 0,
        "arguments_output": "",
        "free_bytes": 10**9,
    }
    return KubeletFacts(**{**known, **fields})


def facts(**fields: Any) -> NodeFacts:
    """A node that may be upgraded; ``stored`` is what the inventory serves unless given.

    Of what is asked of it: ``target``, ``allow_downgrade``, ``shield``, and ``promised``, the program's digest.
    """
    asked: dict[str, Any] = {
        "to_version": str(fields.pop("target", NEW)),
        "allow_downgrade": fields.pop("allow_downgrade", False),
        "verify": VerifySettings(shield=fields.pop("shield", ShieldPolicy.AUTO)),
        "artifact": replace(task_spec().artifact, sha256=fields.pop("promised", Digest("1" * 64))),
    }
    held = fields.get("inventory", inventory(instance(hash_container(SPEC, OLD))))
    known: dict[str, Any] = {
        "node": {
            "metadata": {"name": "node-a", "uid": "u", "resourceVersion": "1", "labels": {"disk": "ssd"}},
            "status": STATUS,
        },
        "pods": (parse_pod(pod()),),
        "spec": replace(task_spec(), **asked),
        "namespace": "nodeupgrade-system",
        "kubelet": kubelet(),
        "runtime": RuntimeInfo(
            name="containerd", version="1.7.2", cri_versions=("v1", "v1alpha2"), binary_version="1.7.2"
        ),
        "runtime_unit": unit("containerd.service"),
        "inventory": held,
        "stored": {container.id: container.hashes for container in held.running()},
        "state_free_bytes": 10**9,
        "readiness": readiness(),
        "traffic": traffic(),
        "runtime_found": runtime_found(),
        "socket": socket(),
        "kubelet_start": start("kubelet.service"),
        "runtime_start": start("containerd.service"),
        "now": datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
        "at": MonotonicSeconds(1000.0),
    }
    known |= fields
    return NodeFacts(**{"hazards": hazards(known), **known})


def hazards(known: dict[str, Any]) -> RestartHazards:
    """What containerd's adapter finds in all of that."""
    seen = RuntimeAtWork(
        info=known["runtime"], unit=known["runtime_unit"], inventory=known["inventory"], listing_seconds=0.1
    )
    return find_hazards(SimulatedFiles({}, Calls(Timeline())), seen)


def runtime_found(**fields: Any) -> RuntimeAsFound:
    """A runtime that would come back as it is."""
    places = RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/containerd.sock")
    known: dict[str, Any] = {
        "name": "containerd",
        "unit": unit("containerd.service", program="/usr/bin/containerd", command=("/usr/bin/containerd",)),
        "process": RuntimeProcess(pid=7, words=("/usr/bin/containerd",), program=Digest("2" * 64)),
        "owner": "containerd.service",
        "places": places,
        "next": NextStart(program="/usr/bin/containerd", places=places),
        "changed": (),
        "program": Digest("2" * 64),
    }
    return RuntimeAsFound(**{**known, **fields})


def socket(**fields: Any) -> RuntimeSocket:
    """A socket that can be shielded."""
    path = "/run/containerd/containerd.sock"
    known = {"endpoint": path, "path": path, "fixed": False, "mounted": False, "kind": CONTAINERD}
    return RuntimeSocket(**{**known, **fields})


def command(line: str, when: str = "ExecStartPre") -> UnitCommand:
    """A command of a unit."""
    return UnitCommand(when=when, program=line.split(" ", maxsplit=1)[0], line=line)


def start(name: str) -> UnitStart:
    """How a unit is started; nothing here asks for more."""
    return UnitStart(unit=name, program="/usr/bin/program", commands=(), files={})


def traffic(pods: Iterable[dict[str, Any]] = (), **fields: Any) -> Traffic:
    """Pods, as the API serves them, and nobody who depends on them."""
    known: dict[str, Any] = {"pods": tuple(map(parse_pod, pods)), "current": OLD, "target": NEW, "settle": 60.0}
    return Traffic(**{**known, **fields})


def readiness(**fields: Any) -> Readiness:
    """A kubelet that would start, and a runtime that may be restarted."""
    known: dict[str, Any] = {
        "current": OLD,
        "target": NEW,
        "layout": read_layout(("--cgroup-driver=systemd",)),
        "dry_run": "F1120 12:39:33.000000 1 server.go:253] mkdir /nonexistent: read-only file system",
        "units": (unit("kubelet.service"), unit("containerd.service")),
        "unchangeable": (),
        "runtime": RuntimeInfo(
            name="containerd", version="1.7.2", cri_versions=("v1", "v1alpha2"), binary_version="1.7.2"
        ),
        "cgroup_driver": "systemd",
        "cgroup_v2": True,
        "state": {"cpu_manager_state": b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'},
    }
    return Readiness(**{**known, **fields})


PROGRAM = PurePosixPath("/usr/bin/.new")


def task_spec(**kubelet: Any) -> TaskSpec:
    """A task that asks for the new version."""
    return TaskSpec(
        node_name=NodeName("node-a"),
        node_uid="node-uid",
        upgrade_ref=UpgradeRef(name="kubelet-1-33", uid="0123abcd"),
        run_id=RunId("run-1"),
        from_version=str(OLD),
        to_version=str(NEW),
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=str(PROGRAM)),
        kubelet=KubeletSettings(**kubelet),
    )


def request(*, replacement: Replacement | Finding | None = None, **kubelet: Any) -> RunRequest:
    """What is asked of the node: the new version, from a program that has a place beside the old one."""
    return RunRequest(
        spec=task_spec(**kubelet),
        run_id=RunId("run-1.1"),
        namespace="nodeupgrade-system",
        replacement=replacement or Replacement(program=PROGRAM, digest=Digest("bbb")),
        staged=str(PROGRAM),
        backup="/usr/bin/.old",
    )
