"""Single pods for tests: made, running, and gone again."""

import contextlib
from collections.abc import Iterator

from e2e.cluster import Cluster, Object
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload

NAMESPACE = workload.NAMESPACE
STAY = "trap 'kill $!; exit 0' TERM; while :; do sleep 3600 & wait $!; done"
"""Costs nothing while it stays, and ends at once with its child: a pod may share the host's processes."""


def container(name: str = "main", script: str = STAY, **more: object) -> Object:
    """Return a container that runs a shell script."""
    return {"name": name, "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script], **more}


def pod(cluster: Cluster, name: str, *containers: Object, metadata: Object | None = None, **spec: object) -> Object:
    """Return a pod of the cluster's node."""
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})},
        "spec": {
            "nodeName": cluster.node.name, "terminationGracePeriodSeconds": 1,
            "containers": list(containers or [container()]), **spec,
        },
    }  # fmt: skip


def of_host(path: str) -> Object:
    """Return a volume of the host, named ``host``."""
    return {"name": "host", "hostPath": {"path": path}}


def mounting(at: str, script: str = STAY) -> Object:
    """Return a container that mounts the volume named ``host``."""
    return container("main", script, volumeMounts=[{"name": "host", "mountPath": at}])


def following(command: str = "ctr events") -> Object:
    """Return a container that ends with an error as soon as its connection to the runtime does.

    It mounts the root of the host as the volume named ``host``.

    Args:
        command: what keeps the connection, on the node; by default to containerd.
    """
    may = {"capabilities": {"add": ["SYS_CHROOT"]}}  # which CRI-O gives to no container by itself
    return {**mounting("/lab", f"exec chroot /lab {command}"), "securityContext": may}


@contextlib.contextmanager
def running(cluster: Cluster, body: Object, *, ready: bool = True) -> Iterator[Object]:
    """Run a pod while the context lasts; by default, wait until it is Ready."""
    name = body["metadata"]["name"]
    cluster.lab.apply(body)
    try:
        if ready:
            wait_ready(cluster, name)
        else:
            wait_until(f"pod {name} to run", lambda: cluster.runs(name) or None, timeout=60)
        yield body
    finally:
        delete(cluster, name)


def wait_ready(cluster: Cluster, name: str) -> None:
    """Wait until a pod is Ready."""
    cluster.lab.kubectl_wait("wait", "-n", NAMESPACE, f"pod/{name}", "--for=condition=Ready", timeout=60)


def forget(cluster: Cluster, *names: str) -> None:
    """Delete pods from the API; their containers may take longer to end."""
    command = ("delete", "pod", "-n", NAMESPACE, *names, "--ignore-not-found", "--grace-period=0", "--force")
    cluster.lab.kubectl(*command, timeout=120)


def delete(cluster: Cluster, *names: str) -> None:
    """Delete pods, and wait until the runtime runs none of their containers."""
    forget(cluster, *names)
    wait_until("the end of the pods", lambda: not any(map(cluster.runs, names)) or None, timeout=120)


def wait_ended(cluster: Cluster, prefix: str) -> None:
    """Wait until the runtime runs no instance of pods whose names have this prefix.

    Ended ones stay until the kubelet collects them, up to a minute after its start; no oracle misses what had ended.
    """

    def left() -> bool:
        found = cluster.node.snapshot()
        pods = {c.pod for c in found.containers if c.running} | {s.pod for s in found.sandboxes if s.running}
        return any(pod.startswith(f"{NAMESPACE}/{prefix}") for pod in pods)

    wait_until("the end of the pods", lambda: not left() or None, timeout=300, interval=0.5)


CLAIM = "claimed"


@contextlib.contextmanager
def claiming(cluster: Cluster) -> Iterator[None]:
    """Run a pod that uses a claim while the context lasts."""
    lab, size = cluster.lab, {"storage": "1Mi"}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    lab.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": CLAIM},
         "spec": {**modes, "capacity": size, "hostPath": {"path": "/var/lib/claimed", "type": "DirectoryOrCreate"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM, "namespace": NAMESPACE},
         "spec": {**modes, "volumeName": CLAIM, "resources": {"requests": size}}},
    )  # fmt: skip
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}
    body = pod(cluster, "claiming", container(volumeMounts=[{"name": "data", "mountPath": "/data"}]), volumes=[volume])
    phase = ("get", "pvc", "-n", NAMESPACE, CLAIM, "-o", "jsonpath={.status.phase}")
    try:
        wait_until("the claim", lambda: lab.kubectl(*phase).stdout == "Bound" or None, timeout=60)
        with running(cluster, body):
            yield
    finally:
        lab.kubectl("delete", "pvc", "-n", NAMESPACE, CLAIM, "--ignore-not-found", timeout=60)
        lab.kubectl("delete", "pv", CLAIM, "--ignore-not-found", timeout=60)
