"""Faults that the end-to-end tests put in the operator's way."""

from e2e.cluster import Cluster
from e2e.lab import snapshot_reader
from e2e.lab.process import wait_until
from nodeupgrade.adapters.containerd import ContainerdRuntime
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.domain.values import ContainerId
from nodeupgrade.kubelethash import HashValue

WRONG = HashValue("deadbeef")
WAITING = "run/nodeupgrade-test-waiting"
GO = "run/nodeupgrade-test-go"


def store_hash(cluster: Cluster, container: str, value: HashValue) -> HashValue:
    """Change the stored hash of one container and return what it was. The runtime serves the old one until restart."""
    runtime = ContainerdRuntime(cluster.node.containerd_socket, processes=ProcessTable(cluster.node.root / "proc"))
    try:
        image = runtime.before_images([ContainerId(container)])[ContainerId(container)]
        runtime.rewrite([(image, StoredHashes(container=value))])
    finally:
        runtime.close()
    assert image.hashes.container is not None
    return image.hashes.container


def restart_runtime(cluster: Cluster) -> None:
    """Let the runtime serve what is stored, and wait until its CRI answers."""
    cluster.node.exec("systemctl", "restart", "containerd")
    wait_until("the runtime", lambda: snapshot_reader.runtime_ready(cluster.node.containerd_socket), timeout=60)


def waiting_kubelet(real: str) -> str:
    """A kubelet that, once started, waits for permission before it is one."""
    return f"""#!/bin/sh
for word in "$@"; do [ "$word" = --version ] && exec {real} "$@"; done
touch /{WAITING}
while [ ! -e /{GO} ]; do sleep 0.05; done
exec {real} "$@"
"""


def wait_for_waiting_kubelet(cluster: Cluster) -> None:
    """Return once a waiting kubelet was started."""
    wait_until("the start of the new kubelet", lambda: (cluster.node.root / WAITING).exists() or None, timeout=300)


def let_kubelet_go(cluster: Cluster) -> None:
    """Give the permission."""
    cluster.node.exec("touch", f"/{GO}")


def exiting_kubelet(version: str) -> str:
    """A kubelet that says the right version and accepts every flag, and exits at once when it shall run."""
    return f"""#!/bin/sh
for word in "$@"; do [ "$word" = --version ] && echo "Kubernetes v{version}" && exit 0; done
exit 1
"""
