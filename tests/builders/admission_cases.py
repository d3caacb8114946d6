"""Provides Pods that a starting kubelet would reject, each with a control."""

from typing import Any

from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.node.checks.facts import Admission, HostFacts
from tests.builders.admitted import (
    CAPACITY,
    DEVICES,
    GPU,
    GUARANTEED,
    HALVES,
    INIT,
    PLENTY,
    SIDECAR,
    STATIC_MEMORY,
    admission,
    beside,
    by_annotation,
    by_manifest,
    held,
    pending,
    pod,
    port,
    resized,
    resized_itself,
    restarted,
    sysctl,
)

FULL_CORES = b"cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}"
ONE_NUMA_NODE = b"topologyManagerPolicy: single-numa-node"
LOCALHOST: Any = {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "web"}}}
SET_ASIDE = {"hugepages-2Mi": 2 * 1024**3}
PLUGIN = HostFacts(device_plugins=frozenset({"gpu.sock"}))
DONGLE = {"limits": {"example.com/dongle": "1"}}
ADVERTISED = {**PLENTY, "example.com/dongle": "1"}
BACK_OFF = {"reason": "CrashLoopBackOff"}
GPU_INIT: Any = {"initContainers": [{"name": "init", "image": "i", "resources": GPU}]}
RESTARTS, HOST_NETWORKS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
OF_THE_POD: Any = {"spec_resources": {"limits": {"cpu": "1"}}}
RULED = {"name": "init", "image": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
HOST_NETWORK: Any = {"hostUsers": False, "hostNetwork": True}


# What is found, and the same with the cause taken away.
CASES: dict[str, tuple[Admission, str, Admission]] = {
    "maxPods": (
        admission(pod("a"), pod("b"), config=b"maxPods: 1"),
        "2 pods are on the node and 1 would be admitted according to the kubelet's configuration on disk (maxPods",
        admission(pod("a"), pod("b"), config=b"maxPods: 2"),
    ),
    "maxPods by a flag": (
        admission(pod("a"), pod("b"), config=b"maxPods: 50", words=("--max-pods", "1")),
        "2 pods are on the node",
        admission(pod("a"), pod("b"), config=b"maxPods: 1", words=("--max-pods=50",)),
    ),
    "podsPerCore": (
        admission(*(pod(str(n)) for n in range(5)), config=b"podsPerCore: 1"),
        "5 pods are on the node and 4",
        admission(*(pod(str(n)) for n in range(4)), config=b"podsPerCore: 1"),
    ),
    "maxPods as the node says": (
        admission(pod("a"), pod("b"), allocatable={**PLENTY, "pods": "1"}),
        "according to the node's status.allocatable",
        admission(pod("a"), pod("b")),
    ),
    "systemReserved": (
        admission(pod(resources={"requests": {"cpu": "500m"}}), config=b"systemReserved: {cpu: 3600m}"),
        "its pods ask for 0.5 of cpu and 0.4 would be available according to the kubelet's configuration on disk",
        admission(pod(resources={"requests": {"cpu": "500m"}}), config=b"systemReserved: {cpu: 3500m}"),
    ),
    "kubeReserved by a flag": (
        admission(pod(resources={"requests": {"cpu": "1"}}), words=("--kube-reserved=cpu=3500m,memory=1Gi",)),
        "OutOfcpu",
        admission(pod(resources={"requests": {"cpu": "1"}}), config=b"kubeReserved: {cpu: '3'}"),
    ),
    "reserved CPUs": (
        admission(pod(resources={"requests": {"cpu": "2"}}), config=b"reservedSystemCPUs: 0-1,3"),
        "OutOfcpu",
        admission(pod(resources={"requests": {"cpu": "2"}}), config=b"reservedSystemCPUs: 0-1"),
    ),
    "evictionHard": (
        admission(pod(resources={"requests": {"memory": "5Gi"}}), config=b"evictionHard: {memory.available: 3Gi}"),
        "OutOfmemory",
        admission(pod(resources={"requests": {"memory": "5Gi"}}), config=b"evictionHard: {memory.available: 25%}"),
    ),
    "evictionHard of the disk": (
        admission(pod(resources={"requests": {"ephemeral-storage": "91Gi"}})),
        "OutOfephemeral-storage",
        admission(pod(resources={"requests": {"ephemeral-storage": "91Gi"}}), words=("--eviction-hard=",)),
    ),
    "huge pages": (
        admission(pod(resources={"requests": {"hugepages-2Mi": "2Gi"}})),
        "of hugepages-2Mi",
        admission(pod(resources={"requests": {"hugepages-2Mi": "1Gi"}})),
    ),
    "huge pages that were set aside after the kubelet's start": (
        admission(pod(resources={"requests": {"memory": "6Gi"}}), now=SET_ASIDE),
        "systemReserved and evictionHard), since hugepages-2Mi of the host changed after the kubelet's start",
        admission(pod(resources={"requests": {"memory": "5Gi"}}), now=SET_ASIDE),
    ),
    "huge pages that were given back after the kubelet's start": (
        admission(pod(resources={"requests": {"hugepages-2Mi": "1Gi"}}), now={"hugepages-2Mi": 0}),
        "OutOfhugepages-2Mi",
        admission(pod(resources={"requests": {"memory": "6Gi"}}), now={"hugepages-2Mi": 0}),
    ),
    "CPUs that went offline after the kubelet's start": (
        admission(pod(resources={"requests": {"cpu": "3"}}), now={"cpu": 2000}),
        "OutOfcpu",
        admission(pod(resources={"requests": {"cpu": "2"}}), now={"cpu": 2000}),
    ),
    "devices": (
        admission(pod(resources={"limits": {"example.com/gpu": "3"}}), capacity=PLENTY),
        "OutOfexample.com/gpu",
        admission(pod(resources=GPU), capacity=PLENTY),
    ),
    "a reservation that is none": (admission(config=b"systemReserved: {cpu: much}"), "it is unknown", admission()),
    "pods of which one is critical": (
        admission(pod("a", priority=2_000_000_000), pod("b"), config=b"maxPods: 1"),
        "(OutOfpods, or Preempting to make room for critical ones)",
        admission(pod("a", priority=2_000_000_000), pod("b"), config=b"maxPods: 2"),
    ),
    "devices that are allocated to nobody": (
        admission(pod(resources=GPU), capacity=PLENTY, allocatable={**PLENTY, "example.com/gpu": "0"}, state=held(0)),
        "OutOfexample.com/gpu",
        admission(pod(resources=GPU), capacity=PLENTY, allocatable={**PLENTY, "example.com/gpu": "0"}, state=held(1)),
    ),
    "a resize to which no kubelet has agreed": (
        admission(resized("5"), versions=("v1.32.1", "v1.33.13")),
        "its pods ask for 5 of cpu",
        admission(resized("5"), versions=("v1.33.1", "v1.34.2")),
    ),
    "a resize with the feature turned off": (
        admission(resized("5"), versions=("v1.33.1", "v1.34.2"), gates={"InPlacePodVerticalScaling": False}),
        "its pods ask for 5 of cpu",
        admission(resized("2"), versions=("v1.33.1", "v1.34.2"), gates={"InPlacePodVerticalScaling": False}),
    ),
    "a resize with all beta features turned off": (
        admission(resized("5"), versions=("v1.33.1", "v1.34.2"), gates={"AllBeta": False}),
        "its pods ask for 5 of cpu",
        admission(resized("2"), versions=("v1.33.1", "v1.34.2"), gates={"AllBeta": False}),
    ),
    "a resize of a pod itself, and a kubelet that does not heed to what another one has agreed": (
        admission(resized_itself("5"), versions=("v1.36.3", "v1.35.4")),
        "its pods ask for 5 of cpu",
        admission(resized_itself("5"), versions=("v1.36.3", "v1.37.2")),
    ),
    "a resize of a pod itself to which no kubelet has agreed": (
        admission(resized_itself("5", {}), versions=("v1.36.3", "v1.37.2")),
        "its pods ask for 5 of cpu",
        admission(resized_itself("2", {}), versions=("v1.36.3", "v1.37.2")),
    ),
    "a port of the host": (
        admission(port("a"), port("b", hostIP="10.0.0.1")),
        "it claims port 80/TCP of the host, as default/a does",
        admission(port("a", hostIP="10.0.0.2"), port("b", hostIP="10.0.0.1"), port("c", protocol="UDP")),
    ),
    "a port of the host in sidecars": (
        admission(port("a"), port("b", "initContainers"), versions=("v1.33.5", "v1.33.6")),
        "(NodePorts)",
        admission(port("a"), port("b", "initContainers"), versions=("v1.33.4", "v1.33.5")),
    ),
    "a node that says nothing": (admission(capacity={}), "does not report its capacity", admission()),
    "another system": (
        admission(pod(os={"name": "windows"})), "its spec.os is windows", admission(pod(os={"name": "linux"})),
    ),
    "another system's label": (
        admission(pod(metadata={"labels": {"kubernetes.io/os": "windows"}})),
        "PodOSSelectorNodeLabelDoesNotMatch",
        admission(pod(metadata={"labels": {"kubernetes.io/os": "windows"}}), versions=("v1.20.15", "v1.22.1")),
    ),
    "a sysctl": (
        admission(pod(**sysctl("net.core.somaxconn")), config=b"allowedUnsafeSysctls: [kernel.msg*]"),
        "it sets sysctl net.core.somaxconn, which kubelet v1.33.13 does not allow",
        admission(pod(**sysctl("net.core.somaxconn")), config=b"allowedUnsafeSysctls: ['net.core.*']"),
    ),
    "a sysctl that the old kubelet does not know": (
        admission(pod(**sysctl("net.ipv4.tcp_rmem")), versions=("v1.30.14", "v1.33.13")),
        "which kubelet v1.30.14 does not allow",
        admission(pod(**sysctl("net.ipv4.tcp_rmem")), versions=("v1.32.1", "v1.33.13")),
    ),
    "AppArmor on a host without": (
        admission(pending(pod(**LOCALHOST))), "it asks for AppArmor", admission(pod(**LOCALHOST)),
    ),
    "AppArmor by annotation": (
        admission(pending(pod(metadata=by_annotation("runtime/default")))),
        "it asks for AppArmor",
        admission(pending(pod(metadata=by_annotation("unconfined")))),
    ),
    "an AppArmor profile that is not loaded": (
        admission(pending(pod(**LOCALHOST)), host=HostFacts(apparmor=True), versions=("v1.20.15", "v1.30.14")),
        "profile web, which is not loaded",
        admission(
            pending(pod(**LOCALHOST)),
            host=HostFacts(apparmor=True, profiles=frozenset({"web"})),
            versions=("v1.20.15", "v1.30.14"),
        ),
    ),
    "AppArmor on a host without, and a static pod": (
        by_manifest(admission(pod(**LOCALHOST))),
        "it asks for AppArmor",
        by_manifest(admission(pod(**LOCALHOST), host=HostFacts(apparmor=True))),
    ),
    "resources of a pod and a gate": (
        admission(pod(**OF_THE_POD), versions=("v1.33.1", "v1.34.2"), gates={"PodLevelResources": False}),
        "the feature gate PodLevelResources is off, so it would be killed (PodLevelResourcesNotSupported)",
        admission(pod(**OF_THE_POD), versions=("v1.32.1", "v1.33.1"), gates={"PodLevelResources": False}),
    ),
    "resources of a pod and all gates": (
        admission(pod(**OF_THE_POD), versions=("v1.33.1", "v1.34.2"), gates={"AllBeta": False}),
        "PodLevelResourcesNotSupported",
        admission(
            pod(**OF_THE_POD), versions=("v1.33.1", "v1.34.2"), gates={"AllBeta": False, "PodLevelResources": True}
        ),
    ),
    "a rule for all containers and a gate": (
        admission(pod(initContainers=[RULED]), versions=("v1.35.1", "v1.37.2"), gates={RESTARTS: False}),
        "RestartAllContainersOnContainerExits is off, so it would be killed (PodFeatureUnsupported)",
        admission(pod(initContainers=[RULED]), versions=("v1.35.1", "v1.37.2")),
    ),
    "a user namespace on the host's network and a gate": (
        admission(pod(**HOST_NETWORK), versions=("v1.36.1", "v1.37.2"), gates={HOST_NETWORKS: False}),
        "it has hostNetwork with hostUsers: false",
        admission(pod(hostNetwork=True), versions=("v1.36.1", "v1.37.2"), gates={HOST_NETWORKS: False}),
    ),
    "a user namespace on the host's network and a gate that is off by default": (
        admission(pod(**HOST_NETWORK), versions=("v1.35.4", "v1.36.3")),
        "UserNamespacesHostNetworkSupport is off, so it would be killed (PodFeatureUnsupported)",
        admission(pod(**HOST_NETWORK), versions=("v1.35.4", "v1.36.3"), gates={HOST_NETWORKS: True}),
    ),
    "a user namespace on the host's network and features that a kubelet declares": (
        admission(pod(**HOST_NETWORK), versions=("v1.35.4", "v1.36.3"), gates={"AllBeta": True}),
        "it has hostNetwork with hostUsers: false",
        admission(pod(**HOST_NETWORK), versions=("v1.35.4", "v1.36.3"), gates={"NodeDeclaredFeatures": False}),
    ),
    "sidecars on the way to 1.28": (
        admission(pod(initContainers=[SIDECAR]), versions=("v1.33.13", "v1.28.15")),
        "kubelet v1.28.15 rejects restartable init containers, and proxy of it is one",
        admission(
            pod(initContainers=[SIDECAR]), versions=("v1.33.13", "v1.28.15"), gates={"SidecarContainers": True}
        ),
    ),
    "sidecars on the way to 1.27": (
        admission(pod(initContainers=[SIDECAR]), versions=("v1.30.14", "v1.27.16"), gates={"SidecarContainers": True}),
        "kubelet v1.27.16 does not know restartable init containers",
        admission(pod(initContainers=[SIDECAR]), versions=("v1.30.14", "v1.29.1")),
    ),
    "sidecars on the way back to 1.28": (
        admission(pod(initContainers=[SIDECAR]), versions=("v1.28.15", "v1.29.1")),
        "kubelet v1.28.15 rejects",
        admission(pod(initContainers=[SIDECAR]), versions=("v1.20.15", "v1.27.16")),
    ),
    "devices without their checkpoint": (
        admission(pod(resources=GPU), capacity=PLENTY, state={}, host=PLUGIN),
        "checkpoint of devices is missing",
        admission(pod(resources=GPU), capacity=PLENTY, state={}),
    ),
    "devices and a damaged checkpoint": (
        admission(pod(resources=GPU), capacity=PLENTY, state={DEVICE_STATE: DEVICES.replace(b'"0"', b'"2"')}),
        "checkpoint of devices is missing or damaged",
        admission(pod(resources=GPU), capacity=CAPACITY, state={DEVICE_STATE: b"{"}),
    ),
    "devices, and what somebody else wrote into the Node": (
        admission(pod(resources=GPU, **GPU_INIT), capacity=PLENTY),
        "kubernetes #138446",
        admission(
            pod(resources=DONGLE, initContainers=[{**INIT, "resources": DONGLE}]),
            capacity=ADVERTISED,
        ),
    ),
    "a resource of no device plugin, and a kubelet that sets it to 0": (
        admission(pod(resources=DONGLE), capacity=ADVERTISED, versions=("v1.15.12", "v1.14.8")),
        "kubelet v1.14.8 sets to 0 when it starts (kubernetes #73948, fixed in 1.14.9)",
        admission(pod(resources=DONGLE), capacity=ADVERTISED, versions=("v1.15.12", "v1.14.9")),
    ),
    "a resource of no device plugin on the way back to such a kubelet": (
        admission(pod(resources=DONGLE), capacity=ADVERTISED, versions=("v1.10.7", "v1.15.12")),
        "kubelet v1.10.7 sets to 0",
        admission(pod(resources=DONGLE), capacity=ADVERTISED, versions=("v1.10.6", "v1.15.12")),
    ),
    "resources of which a device plugin provides one": (
        admission(
            pod("a", GPU),
            pod("b", DONGLE),
            capacity=ADVERTISED,
            allocatable={**PLENTY, "example.com/gpu": "2"},
            versions=("v1.13.12", "v1.15.12"),
        ),
        "it asks for example.com/dongle",
        admission(pod("a", GPU), capacity=ADVERTISED, versions=("v1.13.12", "v1.15.12")),
    ),
    "a resource that is Kubernetes' own": (
        admission(pod(resources=DONGLE), capacity=ADVERTISED, versions=("v1.13.12", "v1.15.12")),
        "OutOfexample.com/dongle",
        admission(
            pod(resources={"limits": {"alpha.kubernetes.io/nvidia-gpu": "1"}}),
            capacity={**CAPACITY, "alpha.kubernetes.io/nvidia-gpu": "1"},
            versions=("v1.13.12", "v1.15.12"),
        ),
    ),
    "devices and a kubelet that takes them away": (
        admission(pod(resources=GPU), capacity=PLENTY, versions=("v1.26.15", "v1.27.3")),
        "kubernetes #118559",
        admission(pod(resources=GPU), capacity=PLENTY, versions=("v1.26.15", "v1.27.6")),
    ),
    "devices on the way back to such a kubelet": (
        admission(pod(resources=GPU), capacity=PLENTY, versions=("v1.26.5", "v1.27.6")),
        "kubelet v1.26.5 rejects",
        admission(pod(resources=GPU), capacity=PLENTY, versions=("v1.26.4", "v1.27.6")),
    ),
    "devices across a change of the checkpoint": (
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1, flat=True), versions=("v1.19.1", "v1.20.15")),
        "kubernetes #102880",
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1, flat=True), versions=("v1.19.1", "v1.21.9")),
    ),
    "devices in a checkpoint that is too old": (
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1, flat=True), versions=("v1.30.14", "v1.31.1")),
        "kubernetes #123398",
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1), versions=("v1.30.14", "v1.31.1")),
    ),
    "devices in a checkpoint that is too new": (
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1), versions=("v1.22.17", "v1.19.16")),
        "kubelet v1.19.16 does not read the format of the checkpoint of devices",
        admission(pod(resources=GPU), capacity=PLENTY, state=held(1), versions=("v1.22.17", "v1.21.9")),
    ),
    "devices of init containers": (
        admission(pod(resources=GPU, **GPU_INIT), capacity=PLENTY),
        "kubernetes #138446",
        admission(pod(resources=GPU, initContainers=[INIT]), capacity=PLENTY),
    ),
    "devices of a container that was restarted": (
        admission(restarted(pod(resources=GPU)), capacity=PLENTY, versions=("v1.34.7", "v1.35.3")),
        "kubelet v1.35.3 considers it not running",
        admission(restarted(pod(resources=GPU)), capacity=PLENTY, versions=("v1.34.7", "v1.35.4")),
    ),
    "devices of a container that backs off beside one that runs, on the way back": (
        beside(admission(pod(), capacity=PLENTY, versions=("v1.25.14", "v1.25.1")), waiting=BACK_OFF),
        "for which kubelet v1.25.14 allocates devices again",
        beside(admission(pod(), capacity=PLENTY, versions=("v1.24.1", "v1.25.1")), waiting=BACK_OFF),
    ),
    "devices of init containers, and kubelets of which the patch decides": (
        admission(pod(resources=GPU, **GPU_INIT), capacity=PLENTY, versions=("v1.27.1", "v1.26.15")),
        "for which kubelet v1.26.15 allocates devices again",
        admission(pod(resources=GPU, **GPU_INIT), capacity=PLENTY, versions=("v1.27.1", "v1.26.4")),
    ),
    "devices of a container that was restarted, and kubelets of which the patch decides": (
        admission(restarted(pod(resources=GPU)), capacity=PLENTY, versions=("v1.27.1", "v1.26.15")),
        "kubelet v1.26.15 considers it not running",
        admission(restarted(pod(resources=GPU)), capacity=PLENTY, versions=("v1.27.1", "v1.26.4")),
    ),
    "memory managers and init containers": (
        admission(pod(resources=GUARANTEED, initContainers=[INIT]), config=STATIC_MEMORY),
        "kubernetes #123971",
        admission(pod(initContainers=[{"name": "init", "image": "i"}]), config=STATIC_MEMORY),
    ),
    "whole cores": (
        admission(pod(resources=GUARANTEED), config=FULL_CORES),
        "SMTAlignmentError",
        admission(pod(resources=HALVES), config=FULL_CORES),
    ),
    "NUMA nodes": (
        admission(pod(resources=GUARANTEED, initContainers=[INIT]), config=ONE_NUMA_NODE, host=HostFacts(numa_nodes=2)),
        "kubernetes #123859",
        admission(pod(resources=GUARANTEED, initContainers=[INIT]), config=ONE_NUMA_NODE),
    ),
    "validated by an old kubelet": (
        admission(versions=("v1.9.11", "v1.8.15")),
        "kubelet v1.8.15 validates it",
        admission(versions=("v1.7.0", "v1.8.15")),
    ),
}  # fmt: skip
