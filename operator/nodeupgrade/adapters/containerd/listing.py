"""Builds the Inventory of a node from the answers of the CRI and containerd, and from ``/proc``."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.records import (
    Listing,
    Statuses,
    container_of,
    in_order,
    is_ready,
    is_running,
    sandbox_of,
    uses_host_network,
)
from nodeupgrade.adapters.proc import INIT, ProcessTable
from nodeupgrade.adapters.proc.table import Stat
from nodeupgrade.api.values import PodRef
from nodeupgrade.domain.node.inventory import ContainerInstance, Inventory, Process, SandboxInstance

SHIM_OF_PODS = "containerd-shim-runc-v2"
"""The shim that serves a whole pod. Older shims serve one container each; containers in virtual machines are not
children of their shim."""
# The kernel keeps only the first 15 bytes of a program's name, which all shims share.
SHIM = "containerd-shim"


def to_inventory(listing: Listing, statuses: Statuses, processes: ProcessTable) -> Inventory:
    """Build the inventory."""
    pods, node_network = listing.pods(), processes.network(INIT)
    return in_order(
        (_container(c, listing, statuses, processes, pods) for c in listing.containers),
        (_sandbox(s, listing, statuses, processes, node_network) for s in listing.sandboxes),
    )


def _container(
    item: cri.Container, listing: Listing, statuses: Statuses, processes: ProcessTable, pods: Mapping[str, PodRef]
) -> ContainerInstance:
    status = statuses.containers.get(item.id)
    stat = processes.stat(listing.pids.get(item.id, 0)) if is_running(item) else None
    return container_of(
        item,
        status,
        pods,
        process=None if stat is None else stat.process,
        monitor=_shim_of_pods(stat, processes) if status and stat else None,
    )


def _shim_of_pods(stat: Stat, processes: ProcessTable) -> Process | None:
    """Return the parent shim of a process, if it is of the kind that serves a whole pod."""
    parent = processes.stat(stat.parent)
    arguments = processes.arguments(stat.parent) if parent is not None and parent.command == SHIM else None
    return parent.process if parent and arguments and PurePosixPath(arguments[0]).name == SHIM_OF_PODS else None


def _sandbox(
    item: cri.PodSandbox, listing: Listing, statuses: Statuses, processes: ProcessTable, node_network: str | None
) -> SandboxInstance:
    stat = processes.stat(listing.pids.get(item.id, 0)) if is_ready(item) else None
    # The shim starts the sandbox's first process and adopts orphans; another parent means that the shim died.
    parent = processes.stat(stat.parent) if stat else None
    status = statuses.sandboxes.get(item.id)
    in_node = stat is not None and processes.network(stat.pid) == node_network
    return sandbox_of(
        item,
        status,
        host_network=uses_host_network(status) if status else in_node,
        process=stat.process if stat else None,
        monitor=parent.process if parent and parent.command == SHIM else None,
    )
