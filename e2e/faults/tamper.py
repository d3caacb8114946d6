"""Faults that the end-to-end tests inject against the operator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.changes import restart_runtime
from e2e.cluster import Cluster
from e2e.faults.run import FaultRun
from e2e.lab.cluster.deploy import FAILPOINTS
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import WRONG_HASH, When, at
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.inventory import StoredHashes

WRONG = HashValue("deadbeef")


def store_hash(cluster: Cluster, container: str, value: HashValue) -> HashValue:
    """Change a container's stored hash and return the old one, which the runtime serves until its restart."""
    root = cluster.node.root
    runtime = ContainerdRuntime(
        cluster.node.containerd_socket,
        processes=ProcessTable(root / "proc"),
        files=HostFiles(root),
        services=SystemdManager(root=root),
    )
    try:
        image = runtime.before_images([ContainerId(container)])[ContainerId(container)]
        runtime.rewrite([(image, StoredHashes(container=value))])
    finally:
        runtime.close()
    assert image.hashes.container is not None
    return image.hashes.container


def give_wrong_hash(cluster: Cluster, name: str, container: str, apply: Callable[[], None]) -> None:
    """Start a run, and give a container a wrong hash after everything was read back and before the kubelet starts.

    Args:
        name: of the NodeUpgrade.
        apply: applies it.
    """
    run, moment = FaultRun(cluster, name, "", "", {}), at(Step.START_KUBELET, When.ANNOUNCED)
    with run.armed(moment, "hang"):
        apply()
        run.wait_hit(moment)
        store_hash(cluster, container, WRONG)
        restart_runtime(cluster.node)
        run.release(moment)
        cluster.wait_for_end(name)


@contextmanager
def planned_wrong_hashes(cluster: Cluster, which: str = "all") -> Iterator[None]:
    """Have agents plan a wrong hash for ``one`` container or for ``all``."""
    cluster.node.write(f"{FAILPOINTS}/{WRONG_HASH}", which)
    try:
        yield
    finally:
        cluster.node.exec("rm", "-f", f"{FAILPOINTS}/{WRONG_HASH}")
