"""Pods on a node, as the checks of admission judge them; each test makes one with a single defect."""

import json
from dataclasses import replace
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.kubelet.settings import configured
from nodeupgrade.kubelet.state_files.checksums import device_checksum
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Admission, HostFacts

V = KubeletVersion.parse
CAPACITY = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", "hugepages-2Mi": "1Gi"}
PLENTY = {**CAPACITY, "example.com/gpu": "2"}
REGISTERED = {"RegisteredDevices": {"example.com/gpu": ["0", "1"]}}
GPU = {"limits": {"example.com/gpu": "1"}}
GUARANTEED = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
HALVES = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "1500m", "memory": "1Gi"}}
INIT = {"name": "init", "image": "i", "resources": GUARANTEED}
STATIC_MEMORY = b"memoryManagerPolicy: Static"
SIDECAR = {"name": "proxy", "image": "i", "restartPolicy": "Always"}


def pod(name: str = "web", resources: Json | None = None, **spec: Any) -> dict[str, Any]:
    of_pod = spec.pop("spec_resources", None)
    containers = [{"name": "app", "image": "i", "resources": resources or {}}]
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name, **spec.pop("metadata", {})},
        "spec": {"containers": containers, **({"resources": of_pod} if of_pod else {}), **spec},
        "status": {"phase": "Running"},
    }


def pending(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": {"phase": "Pending"}}


def restarted(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": {"phase": "Running", "containerStatuses": [{"name": "app", "restartCount": 1}]}}


def admission(
    *pods: dict[str, Any],
    config: bytes = b"",
    words: tuple[str, ...] = (),
    capacity: Json = CAPACITY,
    allocatable: Json = PLENTY,
    versions: tuple[str, str] = ("v1.30.14", "v1.33.13"),
    gates: dict[str, bool] | None = None,
    host: HostFacts | None = None,
    state: dict[str, bytes] | None = None,
    labels: Json | None = None,
    now: dict[str, int] | None = None,
    hostname: str = "",
    **status: Any,
) -> Admission:
    return Admission(
        node={
            "metadata": {"name": "node-a", "uid": "u", "resourceVersion": "1", "labels": labels or {}},
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "nodeInfo": {"operatingSystem": "linux", "architecture": "amd64"},
                **status,
            },
        },
        pods=tuple(parse_pod(body) for body in pods or (pod(),)),
        settings=configured(words, config),
        gates=gates or {},
        current=V(versions[0]),
        target=V(versions[1]),
        host=host or HostFacts(),
        hostname=hostname,
        state={DEVICE_STATE: DEVICES} if state is None else state,
        capacity=now or {},
    )


def sysctl(name: str) -> Any:
    return {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}


def by_annotation(profile: str) -> dict[str, Any]:
    return {"annotations": {"container.apparmor.security.beta.kubernetes.io/app": profile}}


def running(body: dict[str, Any]) -> dict[str, Any]:
    statuses = [{"name": "app", "containerID": "containerd://1", "state": {"running": {}}}]
    return {**body, "status": {"phase": "Running", "containerStatuses": statuses}}


def beside(found: Admission, **state: Any) -> Admission:
    """The same, where of pod web the container app runs, and another one with devices is in this state."""
    [web] = found.pods
    body = {**web.raw, "status": {**web.status, "containerStatuses": [{"name": "other", "state": state}]}}
    containers = [*web.spec["containers"], {"name": "other", "image": "i", "resources": GPU}]
    shown = parse_pod({**body, "spec": {**web.spec, "containers": containers}})
    runs = {(shown.ref, "app"), *([(shown.ref, "other")] if "running" in state else [])}
    return replace(found, pods=(shown,), running=frozenset(runs), begun=frozenset({shown.ref}))


def succeeded(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": {"phase": "Succeeded"}}


def by_manifest(found: Admission) -> Admission:
    return replace(found, pods=tuple(replace(each, from_manifest=True) for each in found.pods))


def port(name: str, kind: str = "containers", **given: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "app", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80, **given}]}
    sidecar = {"restartPolicy": "Always"} if kind == "initContainers" else {}
    spec: dict[str, Any] = {kind: [{**container, **sidecar}]}
    return pod(name, **spec)


def userns(first: int, length: int = 65536, groups: int | None = None) -> bytes:
    users, of_groups = (
        [{"hostId": host, "containerId": 0, "length": length}] for host in (first, first if groups is None else groups)
    )
    return json.dumps({"uidMappings": users, "gidMappings": of_groups}).encode()


def recorded(**records: bytes) -> HostFacts:
    return HostFacts(namespaces=records)


def kept(name: str, entries: Any) -> dict[str, bytes]:
    return {name: json.dumps({"policyName": "static", "entries": entries}).encode()}


def held(count: int, *, flat: bool = False) -> dict[str, bytes]:
    entry = {"PodUID": "web", "ContainerName": "app", "ResourceName": "example.com/gpu", "AllocResp": ""}
    ids = [str(number) for number in range(count)]
    entries = [{**entry, "DeviceIDs": ids if flat else {"-1": ids}}]
    return {DEVICE_STATE: checkpoint({"PodDeviceEntries": entries})}


def checkpoint(content: Json) -> bytes:
    """Return a checkpoint of devices with the checksum that belongs to it."""
    return json.dumps({"Data": content, "Checksum": device_checksum(content)}).encode()


DEVICES = checkpoint(REGISTERED)


def resized_itself(cpu: str, status: Json | None = None) -> dict[str, Any]:
    """A pod whose own resources somebody has resized to more than the kubelet has agreed to."""
    body = pod(spec_resources={"requests": {"cpu": cpu}})
    return {
        **body,
        "status": {"phase": "Running", **({"allocatedResources": {"cpu": "1"}} if status is None else status)},
    }


def resized(cpu: str) -> dict[str, Any]:
    body = pod(resources={"requests": {"cpu": cpu}})
    statuses = [{"name": "app", "allocatedResources": {"cpu": "1"}}]
    return {**body, "status": {"phase": "Running", "containerStatuses": statuses}}
