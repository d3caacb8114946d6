"""Builds the Inventory of a node from the answers of the CRI, and from ``/proc``.

Each container has a conmon of its own, the parent of its first process, which keeps its output and its exit code. A pod
has a process only if its containers share their PIDs; otherwise CRI-O keeps only its namespaces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, Stat
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as cri
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, build_inventory, uses_host_network
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import integer, parse_json

CONMON = "conmon"


def pid_in(info: Mapping[str, str]) -> int:
    """Return the PID in a verbose status; 0 if there is none, as for a pod without a process of its own."""
    try:
        pid = parse_json(info["info"]).get("pid", 0)
        return integer(pid)
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0


@dataclass(slots=True)
class StatusCache:
    """Answers of CRI-O about each container and pod, by id."""

    pids: dict[str, int] = field(default_factory=dict)  # PID of the first process; 0 if there is none
    # when the OCI runtime created a container, in ns since the epoch; the time in the *list* changes with a restart
    created: dict[str, int] = field(default_factory=dict)
    networks: dict[str, bool] = field(default_factory=dict)  # whether a pod is in the node's network

    def learn(
        self,
        containers: Mapping[str, cri.ContainerStatusResponse],
        sandboxes: Mapping[str, cri.PodSandboxStatusResponse],
    ) -> None:
        """Store verbose statuses."""
        self.pids |= {i: pid_in(status.info) for i, status in containers.items()}
        self.pids |= {i: pid_in(status.info) for i, status in sandboxes.items()}
        self.date(containers)
        self.networks |= {i: uses_host_network(status) for i, status in sandboxes.items()}

    def date(self, containers: Mapping[str, cri.ContainerStatusResponse]) -> None:
        """Store when containers were created."""
        self.created |= {i: status.status.created_at for i, status in containers.items()}


def to_inventory(listing: Listing, statuses: Statuses, known: StatusCache, processes: ProcessTable) -> Inventory:
    """Build the inventory; ``known`` has earlier answers."""

    def conmon(stat: Stat, identity: str) -> Process | None:
        """Return the conmon of a process: its parent, if that was started for this container and still watches it.

        The adopter of a dead conmon's process is not one.
        """
        parent = processes.stat(stat.parent)
        if parent is None or parent.command != CONMON or identity not in (processes.arguments(parent.pid) or ()):
            return None
        return parent.process

    return build_inventory(
        listing,
        statuses,
        processes,
        monitor=conmon,
        pod_monitor=conmon,
        host_network=lambda _stat, sandbox: known.networks.get(sandbox, False),
        created=known.created,
    )
