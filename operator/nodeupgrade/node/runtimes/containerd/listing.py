"""Builds the Inventory of a node from the answers of the CRI and containerd, and from ``/proc``."""

from pathlib import PurePosixPath

from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable, Stat
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, build_inventory, uses_host_network
from nodeupgrade.node.runtimes.inventory import Inventory

SHIM_OF_PODS = "containerd-shim-runc-v2"
"""The shim of a whole pod. Older shims serve one container each; a container in a virtual machine is no child of it."""
# The kernel keeps only the first 15 bytes of a program's name, which all shims share.
SHIM = "containerd-shim"


def to_inventory(listing: Listing, statuses: Statuses, processes: ProcessTable) -> Inventory:
    """Build the inventory."""
    node_network = processes.network(INIT)

    def host_network(stat: Stat | None, sandbox: str) -> bool:
        if (status := statuses.sandboxes.get(sandbox)) is not None:
            return uses_host_network(status)
        return stat is not None and processes.network(stat.pid) == node_network

    def shim(stat: Stat, container: str) -> Process | None:
        return _shim_of_pods(stat, processes) if container in statuses.containers else None

    def shim_of_sandbox(stat: Stat, _sandbox: str) -> Process | None:
        """Return its parent, unless the shim that started it died: another parent has adopted it."""
        parent = processes.stat(stat.parent)
        return parent.process if parent and parent.command == SHIM else None

    return build_inventory(
        listing, statuses, processes, monitor=shim, pod_monitor=shim_of_sandbox, host_network=host_network
    )


def _shim_of_pods(stat: Stat, processes: ProcessTable) -> Process | None:
    """Return the parent shim of a process, if it is of the kind that serves a whole pod."""
    parent = processes.stat(stat.parent)
    arguments = processes.arguments(stat.parent) if parent is not None and parent.command == SHIM else None
    return parent.process if parent and arguments and PurePosixPath(arguments[0]).name == SHIM_OF_PODS else None
