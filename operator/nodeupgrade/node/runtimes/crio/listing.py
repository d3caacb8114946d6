"""Builds the Inventory of a node from the answers of the CRI, and from ``/proc``.

Each container has a conmon of its own, the parent of its first process, which keeps its output and its exit code. A
pod has a process of its own only if its containers share their PIDs; otherwise CRI-O keeps nothing but its
namespaces.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, Stat
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as cri
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, inventory_of, uses_host_network
from nodeupgrade.node.runtimes.inventory import Inventory

CONMON = "conmon"


def pid_in(info: Mapping[str, str]) -> int:
    """Return the PID in a verbose status; 0 if there is none, as for a pod without a process of its own."""
    try:
        pid = json.loads(info["info"]).get("pid", 0)
        return int(pid)
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0


@dataclass(slots=True)
class Known:
    """What was asked of CRI-O once about each container and pod, by id."""

    pids: dict[str, int] = field(default_factory=dict)  # PID of the first process; 0 if there is none
    # when the OCI runtime created a container, in nanoseconds since the epoch. The time in CRI-O's *list* is another
    # one before CRI-O's first restart than after it.
    created: dict[str, int] = field(default_factory=dict)
    networks: dict[str, bool] = field(default_factory=dict)  # whether a pod is in the node's network

    def learn(
        self,
        containers: Mapping[str, cri.ContainerStatusResponse],
        sandboxes: Mapping[str, cri.PodSandboxStatusResponse],
    ) -> None:
        """Keep what verbose statuses say."""
        self.pids |= {i: pid_in(status.info) for i, status in containers.items()}
        self.pids |= {i: pid_in(status.info) for i, status in sandboxes.items()}
        self.date(containers)
        self.networks |= {i: uses_host_network(status) for i, status in sandboxes.items()}

    def date(self, containers: Mapping[str, cri.ContainerStatusResponse]) -> None:
        """Keep when containers were created."""
        self.created |= {i: status.status.created_at for i, status in containers.items()}


def to_inventory(listing: Listing, statuses: Statuses, known: Known, processes: ProcessTable) -> Inventory:
    """Build the inventory; ``known`` is what was asked before."""

    def conmon(stat: Stat, identity: str) -> Process | None:
        """Return the conmon of a process: its parent, if that was started for this container and still watches it.

        Whoever adopted the process of a conmon that died is not one.
        """
        parent = processes.stat(stat.parent)
        if parent is None or parent.command != CONMON or identity not in (processes.arguments(parent.pid) or ()):
            return None
        return parent.process

    return inventory_of(
        listing,
        statuses,
        processes,
        monitor=conmon,
        pod_monitor=conmon,
        host_network=lambda _stat, sandbox: known.networks.get(sandbox, False),
        created=known.created,
    )
