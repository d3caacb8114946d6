"""Pods that run, and that a kubelet would not admit again."""

import contextlib
import json
from collections.abc import Iterator

from e2e import pods
from e2e.changes import added, changed, kubelet_settings
from e2e.cluster import Cluster, Object
from e2e.preflight.kinds.kubelet import ACCEPT, ACCEPTED, STATE, settings
from e2e.preflight.row import Hazard, Row
from nodeupgrade.kubelet.state_files.checksums import device_checksum, memory_checksum
from nodeupgrade.kubelet.state_files.fields import fields

REJECTED = "PodWouldNotBeAdmitted"
DEVICE = "nodeupgrade.test/device"
CHECKPOINT = f"{STATE}/device-plugins/kubelet_internal_checkpoint"
WHOLE = {"cpu": "1", "memory": "16Mi"}
GUARANTEED = pods.container(resources={"requests": WHOLE, "limits": WHOLE})
INIT = pods.container("init", "true", resources={"requests": WHOLE, "limits": WHOLE})


def labelled(**labels: str) -> Hazard:
    """Label a pod that runs already."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with pods.running(cluster, pods.pod(cluster, "labelled")):
            named = [f"{name}={value}" for name, value in labels.items()]
            cluster.lab.kubectl("label", "pod", "-n", pods.NAMESPACE, "labelled", *named)
            yield {}

    return make


@contextlib.contextmanager
def relabelled(cluster: Cluster) -> Iterator[Object]:
    """Give the Node another hostname than its host's, and run a pod that asks for it."""
    label, name = "kubernetes.io/hostname", cluster.node.name
    cluster.lab.kubectl("label", "node", name, f"{label}=elsewhere", "--overwrite")
    try:
        with pods.running(cluster, pods.pod(cluster, "placed", nodeSelector={label: "elsewhere"})):
            yield {}
    finally:
        cluster.lab.kubectl("label", "node", name, f"{label}={name}", "--overwrite")


@contextlib.contextmanager
def sysctl_no_longer_allowed(cluster: Cluster) -> Iterator[Object]:
    """Take a sysctl from the configuration that a pod was admitted with."""
    context = {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "4096 131072 6291456"}]}
    node, body = cluster.node, pods.pod(cluster, "tuned", securityContext=context)
    with (
        kubelet_settings(node, allowedUnsafeSysctls=["net.ipv4.tcp_rmem"]),
        pods.running(cluster, body),
        kubelet_settings(node, restart=False, allowedUnsafeSysctls=None),
    ):
        yield {}


@contextlib.contextmanager
def with_resource(cluster: Cluster) -> Iterator[Object]:
    """Run a pod with a resource that the Node has, and that no device plugin gives."""
    patch = {"status": {"capacity": {DEVICE: "1"}, "allocatable": {DEVICE: "1"}}}
    command = ("patch", "node", cluster.node.name, "--subresource=status", "--type=merge", "-p")
    cluster.lab.kubectl(*command, json.dumps(patch))
    resources = {"requests": {DEVICE: "1"}, "limits": {DEVICE: "1"}}
    try:
        with pods.running(cluster, pods.pod(cluster, "device", pods.container(resources=resources))):
            yield {}
    finally:
        gone = {"status": {"capacity": {DEVICE: None}, "allocatable": {DEVICE: None}}}
        cluster.lab.kubectl(*command, json.dumps(gone))


@contextlib.contextmanager
def device_and_damage(cluster: Cluster) -> Iterator[Object]:
    """Run a pod with a device where the kubelet's checkpoint is damaged."""
    with with_resource(cluster), added(cluster.node, CHECKPOINT, "{"):
        yield {}


@contextlib.contextmanager
def device_unrecorded(cluster: Cluster) -> Iterator[Object]:
    """Run a pod with a device that is not in the kubelet's checkpoint."""
    data = {"RegisteredDevices": {DEVICE: ["one"]}, "PodDeviceEntries": []}
    with (
        with_resource(cluster),
        added(cluster.node, CHECKPOINT, json.dumps({"Data": data, "Checksum": device_checksum(data)})),
    ):
        yield {}


@contextlib.contextmanager
def memory_manager(cluster: Cluster) -> Iterator[Object]:
    """Have a guaranteed pod with an init container where the memory manager is Static."""
    node = cluster.node
    body = pods.pod(cluster, "guaranteed", GUARANTEED, initContainers=[INIT])

    def static(text: str) -> str:
        state = json.loads(text) | {"policyName": "Static"}
        return json.dumps(state | {"checksum": memory_checksum(fields(json.dumps(state).encode()))})

    with (
        pods.running(cluster, body),
        changed(node, f"{STATE}/memory_manager_state", static),
        kubelet_settings(node, restart=False, memoryManagerPolicy="Static"),
    ):
        yield {}


@contextlib.contextmanager
def whole_cores(cluster: Cluster) -> Iterator[Object]:
    """Have a pod with a CPU of its own under full-pcpus-only."""
    options = {"full-pcpus-only": "true"}
    with (
        pods.running(cluster, pods.pod(cluster, "pinned", GUARANTEED)),
        kubelet_settings(cluster.node, restart=False, cpuManagerPolicyOptions=options),
    ):
        yield {}


ROWS = (
    Row(name="admission/max-pods", shows="pods_fit", reason=REJECTED, make=settings(maxPods=3), spec=ACCEPT,
        also=ACCEPTED),
    Row(name="admission/reserved", shows="pods_fit", reason=REJECTED, make=settings(systemReserved={"cpu": "1990m"}),
        spec=ACCEPT, also=ACCEPTED),
    Row(name="admission/operating-system", shows="operating_system_fits", reason=REJECTED,
        make=labelled(**{"kubernetes.io/os": "windows"})),
    Row(name="admission/hostname", shows="labels_are_kept", reason=REJECTED, make=relabelled),
    Row(name="admission/sysctl", shows="sysctls_are_allowed", reason=REJECTED, make=sysctl_no_longer_allowed,
        new="1.31.14", spec=ACCEPT, also=ACCEPTED),
    Row(name="admission/sidecar", shows="sidecars_are_known", reason=REJECTED, new="1.28.15",
        make=settings(maxPods=240), spec={**ACCEPT, "skewPolicy": "Warn"}, also=ACCEPTED),
    Row(name="admission/device", shows="devices_are_kept", reason=REJECTED, make=device_and_damage),
    Row(name="admission/device-unrecorded", shows="devices_are_on_record", reason=REJECTED, make=device_unrecorded),
    Row(name="admission/memory-manager", shows="memory_is_not_reckoned_twice", reason=REJECTED, make=memory_manager,
        spec=ACCEPT, also=ACCEPTED | {"exclusive_memory_is_recorded"}),
    Row(name="admission/whole-cores", shows="whole_cores_are_not_asked_for_twice", reason=REJECTED,
        make=whole_cores, spec=ACCEPT, also=ACCEPTED),
)  # fmt: skip
