"""Finds the containers that use the sockets of a daemon, in mount tables, connections and cgroups."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import LARGEST_MOUNT_TABLE, LARGEST_READ, FilesView
from nodeupgrade.node.host.files.mounts import mounts, place_of
from nodeupgrade.node.host.processes.processes import INIT, ProcessTable
from nodeupgrade.node.host.processes.unix_sockets import UnixSocket, unix_sockets
from nodeupgrade.node.runtimes.description import RuntimeProcess
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.runtimes.runtime import RuntimeClients
from nodeupgrade.text import lines, number

LISTENING = 0x1
"""Flag in the second byte of those in ``/proc/net/unix`` (__SO_ACCEPTCON)."""
SOCKET = re.compile(
    "[^ ]+: [0-9A-F]{8} [0-9A-F]{8} (?P<flags>[0-9A-F]{8}) [0-9A-F]{4} [0-9A-F]{2} +(?P<inode>[0-9]{1,20})"
    "(?: (?P<name>.*))?"
)
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
    listed, table = processes.text(INIT, "net/unix"), processes.text(INIT, "mountinfo")
    if not (listed and table):
        return RuntimeClients(unknown=f"the node's list of sockets or mounts is larger than {LARGEST_READ >> 20} MiB")
    own = processes.sockets(daemon.pid)
    lasting = frozenset[int]() if with_systemds else processes.sockets(INIT)
    mounted = dict(_mounted(inventory, processes, table, _paths_of(own - lasting, listed, files)))
    try:
        connected = frozenset(_connected(own, inventory, processes, list_sockets))
    except OSError as error:
        return RuntimeClients(mounted=mounted, unknown=error.strerror or str(error))
    return RuntimeClients(mounted=mounted, connected=connected)


def listening_sockets(text: str) -> Iterator[tuple[int, PurePosixPath]]:
    """Yield inode and path of each socket that listens at a path, from the content of ``/proc/net/unix``.

    A name may contain what looks like lines of other sockets. That can add a socket, but not hide one.

    Raises:
        StepFailed: the text cannot be read.
    """
    found: list[tuple[int, str, str]] = []
    for line in lines(text)[1:]:
        if (socket := SOCKET.fullmatch(line)) is not None:
            found.append((number(socket["inode"]) or 0, socket["flags"], socket["name"] or ""))
        elif found:  # the kernel writes a name as it is, and there may be line feeds in it
            inode, flags, name = found[-1]
            found[-1] = (inode, flags, f"{name}\n{line}")
        else:
            raise StepFailed(f"cannot read the list of Unix sockets: {shorten(line, 200)!r}")
    yield from (
        (inode, PurePosixPath(name))
        for inode, flags, name in found
        if bytes.fromhex(flags)[1] & LISTENING and name.startswith("/")
    )


def _paths_of(own: frozenset[int], listed: str, files: FilesView) -> Iterator[PurePosixPath]:
    """Yield the paths, without symbolic links, at which these sockets listen."""
    for inode, path in listening_sockets(listed):
        if inode in own and (found := resolve_socket(path, files)) is not None:
            yield found


def resolve_socket(path: PurePosixPath, files: FilesView) -> PurePosixPath | None:
    """Return the path of a socket without symbolic links; ``None`` if the path leads to none, or cannot be followed."""
    try:
        return files.socket(path)
    except StepFailed:
        return None


def _mounted(
    inventory: Inventory, processes: ProcessTable, table: str, sockets: Iterator[PurePosixPath]
) -> Iterator[tuple[ContainerId, tuple[str, ...]]]:
    places = {place_of(table, path): str(path) for path in sockets}
    for container in inventory.running() if places else ():
        if container.process is not None:
            of_container = processes.text(container.process.pid, "mountinfo", limit=LARGEST_MOUNT_TABLE)
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
        if name not in running:
            continue
        # What a process has open is read last: pods may have millions of descriptors, and connect to no daemon.
        if (ends_there := ends.get(processes.network(pid) or "")) and processes.sockets(pid) & ends_there:
            yield ContainerId(name)


def _ends(own: frozenset[int], processes: ProcessTable, pid: int, list_sockets: Sockets) -> Iterator[int]:
    """Yield the inodes of the sockets of a process's network namespace that are connected to the daemon's."""
    try:
        network = processes.open_network(pid)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
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
    names = (part for line in lines(cgroups) for part in line.rpartition(":")[2].split("/"))
    ids = [SEPARATORS.split(name.removesuffix(".scope"))[-1] for name in names if MONITORS not in name]
    return next((name for name in reversed(ids) if len(name) == 64), "")
