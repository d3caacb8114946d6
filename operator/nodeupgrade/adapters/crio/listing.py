"""Builds the Inventory of a node from the answers of the CRI, and from ``/proc``.

Each container has a conmon of its own, the parent of its first process, which keeps its output and its exit code. A pod
has a process of its own only if its containers share their PIDs; otherwise CRI-O keeps nothing but its namespaces.
"""

import json
from collections.abc import Mapping

from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.records import (
    Listing,
    Statuses,
    container_of,
    in_order,
    is_ready,
    is_running,
    sandbox_of,
)
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.adapters.proc.table import Stat
from nodeupgrade.domain.node.inventory import Inventory, Process

CONMON = "conmon"


def pid_in(info: Mapping[str, str]) -> int:
    """Return the PID in a verbose status; 0 if there is none, as for a pod without a process of its own."""
    try:
        pid = json.loads(info["info"]).get("pid", 0)
        return int(pid)
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0


def to_inventory(
    listing: Listing, statuses: Statuses, networks: Mapping[str, bool], processes: ProcessTable
) -> Inventory:
    """Build the inventory.

    Args:
        listing: all records.
        statuses: those that were requested.
        networks: whether a pod is in the node's network, by sandbox id.
        processes: the node's.
    """
    pods = listing.pods()
    containers = []
    for item in listing.containers:
        stat = processes.stat(listing.pids.get(item.id, 0)) if is_running(item) else None
        process, monitor = _process(stat), _conmon(item.id, stat, processes)
        status = statuses.containers.get(item.id)
        containers.append(container_of(item, status, pods, process=process, monitor=monitor))
    sandboxes = []
    for pod in listing.sandboxes:
        stat = processes.stat(listing.pids.get(pod.id, 0)) if is_ready(pod) else None
        sandboxes.append(
            sandbox_of(
                pod,
                statuses.sandboxes.get(pod.id),
                host_network=networks.get(pod.id, False),
                process=_process(stat),
                monitor=_conmon(pod.id, stat, processes),
            )
        )
    return in_order(containers, sandboxes)


def unknown(
    containers: tuple[cri.Container, ...], sandboxes: tuple[cri.PodSandbox, ...], known: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Return the running containers and ready sandboxes whose process was not asked for yet."""
    return (
        [c.id for c in containers if is_running(c) and c.id not in known],
        [s.id for s in sandboxes if is_ready(s) and s.id not in known],
    )


def _process(stat: Stat | None) -> Process | None:
    return None if stat is None else stat.process


def _conmon(identity: str, stat: Stat | None, processes: ProcessTable) -> Process | None:
    """Return the conmon of a process: its parent, if that was started for this container and still watches it.

    Whoever adopted the process of a conmon that died is not one.
    """
    parent = None if stat is None else processes.stat(stat.parent)
    if parent is None or parent.command != CONMON or identity not in (processes.arguments(parent.pid) or ()):
        return None
    return parent.process
