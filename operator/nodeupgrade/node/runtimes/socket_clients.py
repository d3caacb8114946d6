"""Finds the containers that use the sockets of a daemon, in mount tables, connections and cgroups."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import mounts, place_of
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.host.processes.unix_sockets import UnixSocket, unix_sockets
from nodeupgrade.node.runtimes.description import RuntimeProcess
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.runtimes.runtime import RuntimeClients

LISTENING = 0x10000
"""Flag in ``/proc/net/unix`` (__SO_ACCEPTCON)."""
FIELDS = 8
MONITORS = "conmon"
"""Part of the name of the cgroup of a container's monitor."""
SEPARATORS = re.compile(r"[-:]")

Sockets = Callable[[int], dict[int, UnixSocket]]


def find_clients(
    daemon: RuntimeProcess | None,
    inventory: Inventory,
    processes: ProcessTable,
    files: FilesView,
    list_sockets: Sockets = unix_sockets,
    *,
    with_systemds: bool = False,
) -> RuntimeClients:
    """Return the containers that have mounted a socket of a daemon as a file, or are connected to one.

    Args:
        daemon: ``None`` if it cannot be seen, so that its clients are unknown.
        list_sockets: returns the unix sockets of a network namespace.
        with_systemds: whether the restart replaces sockets on which init listens, too. Usually systemd opened them, and
            keeps them open.
    """
    if daemon is None:
        return RuntimeClients(unknown="the runtime's process cannot be seen")
    own = processes.sockets(daemon.pid)
    lasting = frozenset[int]() if with_systemds else processes.sockets(INIT)
    mounted = dict(_mounted(inventory, processes, _paths_of(own - lasting, processes, files)))
    try:
        connected = frozenset(_connected(own, inventory, processes, list_sockets))
    except OSError as error:
        return RuntimeClients(mounted=mounted, unknown=error.strerror or str(error))
    return RuntimeClients(mounted=mounted, connected=connected)


def listening_sockets(text: str) -> Iterator[tuple[int, PurePosixPath]]:
    """Yield inode and path of each socket that listens at a path, from the content of ``/proc/net/unix``."""
    for line in text.splitlines()[1:]:
        fields = line.split(maxsplit=FIELDS - 1)
        if len(fields) == FIELDS and int(fields[3], 16) & LISTENING and fields[7].startswith("/"):
            yield int(fields[6]), PurePosixPath(fields[7])


def _paths_of(own: frozenset[int], processes: ProcessTable, files: FilesView) -> Iterator[PurePosixPath]:
    """Yield the paths, without symbolic links, at which these sockets listen."""
    for inode, path in listening_sockets(processes.text(INIT, "net/unix")):
        if inode in own and (found := resolve_socket(path, files)) is not None:
            yield found


def resolve_socket(path: PurePosixPath, files: FilesView) -> PurePosixPath | None:
    """Return the path of a socket without symbolic links; ``None`` if the path leads to none, or cannot be followed."""
    try:
        return files.socket(path)
    except StepFailed:
        return None


def _mounted(
    inventory: Inventory, processes: ProcessTable, sockets: Iterator[PurePosixPath]
) -> Iterator[tuple[ContainerId, tuple[str, ...]]]:
    table = processes.text(INIT, "mountinfo")
    places = {place_of(table, path): str(path) for path in sockets}
    for container in inventory.running() if places else ():
        if container.process is not None:
            of_container = processes.text(container.process.pid, "mountinfo")
            found = {places[mount.source] for mount in mounts(of_container) if mount.source in places}
            if found and processes.lives(container.process):
                yield container.id, tuple(sorted(found))


def _connected(
    own: frozenset[int], inventory: Inventory, processes: ProcessTable, list_sockets: Sockets
) -> Iterator[ContainerId]:
    """Yield the containers with a process that is connected to a socket of the daemon.

    Raises:
        OSError: the kernel does not show which sockets are connected.
    """
    running = {container.id: container for container in inventory.running() if container.process is not None}
    inits = {c.process.pid for c in running.values() if c.process is not None}
    networks = {network: pid for pid in inits if (network := processes.network(pid)) is not None}
    ends = {name: frozenset(_ends(own, processes, pid, list_sockets)) for name, pid in networks.items()}
    if not any(ends.values()):
        return
    for pid in processes.pids():
        name = _container_of(processes.text(pid, "cgroup"))
        if name in running and processes.sockets(pid) & ends.get(processes.network(pid) or "", frozenset()):
            yield ContainerId(name)


def _ends(own: frozenset[int], processes: ProcessTable, pid: int, list_sockets: Sockets) -> Iterator[int]:
    """Yield the inodes of the sockets of a process's network namespace that are connected to the daemon's."""
    try:
        network = processes.open_network(pid)
    except FileNotFoundError:  # it has ended
        return
    try:
        found = list_sockets(network)
    finally:
        os.close(network)
    for each in found.values():
        accepted = found.get(each.peer) if each.peer in own else None
        if accepted is not None and accepted.named:  # the daemon's outgoing connections have no address on its side
            yield each.inode


def _container_of(cgroups: str) -> str:
    """Return the id of the container that a process belongs to, by the name of its cgroup; empty if there is none."""
    names = (part for line in cgroups.splitlines() for part in line.rpartition(":")[2].split("/"))
    ids = [SEPARATORS.split(name.removesuffix(".scope"))[-1] for name in names if MONITORS not in name]
    return next((name for name in reversed(ids) if len(name) == 64), "")
