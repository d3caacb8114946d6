"""The containers that use the sockets of a daemon, by what the kernel shows: mount tables, connections and cgroups."""

import contextlib
import ctypes
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.proc.processes import INIT, ProcessTable
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.mounts import mounts, place_of
from nodeupgrade.domain.node.runtime import RuntimeClients, RuntimeProcess
from nodeupgrade.ports.files import FilesView

LISTENING = 0x10000
"""Flag in ``/proc/net/unix`` (__SO_ACCEPTCON)."""
FIELDS = 8
MONITORS = "conmon"
"""Part of the name of a cgroup in which the monitor of a container lives, and not the container."""
SEPARATORS = re.compile(r"[-:]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixSocket:
    """One socket."""

    inode: int
    peer: int | None  # inode of the socket that it is connected to; None if there is none
    named: bool  # whether it has an address; of a connection, the end that accepted has the one that was connected to


Sockets = Callable[[int], dict[int, UnixSocket]]


def unix_sockets(network: int) -> dict[int, UnixSocket]:
    """Return the unix sockets of a network namespace by their inodes.

    Args:
        network: file descriptor of the namespace.

    Raises:
        OSError: the kernel does not tell.
    """
    with ThreadPoolExecutor(max_workers=1) as inside:  # a thread of its own changes its namespace, and ends
        return {found.inode: found for found in inside.submit(_list_in, network).result()}


def clients(
    daemon: RuntimeProcess | None,
    inventory: Inventory,
    processes: ProcessTable,
    files: FilesView,
    list_sockets: Sockets = unix_sockets,
    *,
    with_systemds: bool = False,
) -> RuntimeClients:
    """Return the containers that have mounted a socket of a daemon as a file, or are connected to one.

    Sockets on which init listens, too, are left out of the former: systemd opened them, and keeps them open while the
    daemon is restarted.

    Args:
        daemon: ``None`` if it cannot be seen, so that its clients are unknown.
        list_sockets: returns the unix sockets of a network namespace.
        with_systemds: whether systemd's sockets do not outlive the restart either.
    """
    if daemon is None:
        return RuntimeClients(unknown="the runtime's process cannot be seen")
    own = processes.sockets(daemon.pid)
    kept = frozenset[int]() if with_systemds else processes.sockets(INIT)
    mounted = dict(_mounted(inventory, processes, _made_anew(own - kept, processes, files)))
    try:
        connected = frozenset(_connected(own, inventory, processes, list_sockets))
    except OSError as error:
        return RuntimeClients(mounted=mounted, unknown=error.strerror or str(error))
    return RuntimeClients(mounted=mounted, connected=connected)


def listening(text: str) -> Iterator[tuple[int, PurePosixPath]]:
    """Yield inode and path of each socket that listens at a path, from the content of ``/proc/net/unix``."""
    for line in text.splitlines()[1:]:
        fields = line.split(maxsplit=FIELDS - 1)
        if len(fields) == FIELDS and int(fields[3], 16) & LISTENING and fields[7].startswith("/"):
            yield int(fields[6]), PurePosixPath(fields[7])


def _made_anew(own: frozenset[int], processes: ProcessTable, files: FilesView) -> Iterator[PurePosixPath]:
    """Yield the paths, without symbolic links, of those of these sockets that listen at one."""
    for inode, path in listening(processes.text(INIT, "net/unix")):
        if inode in own and (found := socket_at(path, files)) is not None:
            yield found


def socket_at(path: PurePosixPath, files: FilesView) -> PurePosixPath | None:
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
    """Yield the containers of which a process holds the other end of a connection that the daemon has accepted.

    Raises:
        OSError: the kernel does not tell which sockets are connected.
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
        if accepted is not None and accepted.named:  # what the daemon connected to itself has no address on its side
            yield each.inode


def _container_of(cgroups: str) -> str:
    """Return the id of the container that a process belongs to, by the name of its cgroup; empty if there is none."""
    names = (part for line in cgroups.splitlines() for part in line.rpartition(":")[2].split("/"))
    ids = [SEPARATORS.split(name.removesuffix(".scope"))[-1] for name in names if MONITORS not in name]
    return next((name for name in reversed(ids) if len(name) == 64), "")


# The process that listens on a unix socket.

CREDENTIALS = struct.Struct("3i")
TIMEOUT_SECONDS = 5.0


def listener(path: Path, processes: ProcessTable) -> RuntimeProcess | None:
    """Return the process that listens on a socket; ``None`` if it is not visible from this PID namespace.

    Raises:
        Transient: no process listens.
    """
    pid = processes.own_number(_listens(path))
    return None if pid is None else process_of(pid, processes)


def process_of(pid: int, processes: ProcessTable) -> RuntimeProcess | None:
    """Return a process as that of a runtime; ``None`` if it has ended."""
    words = processes.arguments(pid)
    return RuntimeProcess(pid=pid, words=words, program=processes.program_digest(pid)) if words else None


def open_listener(path: Path) -> int | None:
    """Return a file descriptor that is readable as soon as the process that listens on a socket has ended.

    Returns:
        ``None`` if nobody listens, or if that process cannot be followed: it is outside of our PID namespace, or the
        kernel is older than 5.3.
    """
    try:
        pid = _listens(path)
        descriptor = os.pidfd_open(pid)
    except (Transient, OSError):
        return None
    with contextlib.suppress(Transient):
        if _listens(path) == pid:  # so that no other process has got its PID in between
            return descriptor
    os.close(descriptor)
    return None


def peer_of(connection: socket.socket) -> int:
    """Return the PID of a connection's other end, of when it connected or began to listen.

    It is 0 for a process outside of our PID namespace.
    """
    pid, _uid, _gid = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return int(pid)


def _listens(path: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(str(path))
            return peer_of(connection)
        except OSError as error:
            raise Transient(f"cannot connect to {path} because {error.strerror or error}") from error


# The unix sockets of a network namespace with their peers, as the kernel lists them (sock_diag(7), unix_diag).
#
# ``/proc/net/unix`` does not tell which socket is connected to which. The kernel puts both ends of a connection into
# the network namespace of the process that connected, wherever the other one listens.

CLONE_NEWNET = 0x40000000
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST_DUMP = 0x1 | 0x300
SHOW_NAME, SHOW_PEER = 0x1, 0x4
ANY = 0xFFFFFFFF
NAME, PEER = 0, 2
"""Attributes of an answer."""
ERROR, DONE = 2, 3
"""Types of messages."""
HEADER, ASKED, ANSWER, ATTRIBUTE = (
    struct.Struct("=IHHII"),
    struct.Struct("=BBHIIIII"),
    struct.Struct("=BBBBIII"),
    struct.Struct("=HH"),
)
BUFFER = 1 << 17


_libc = ctypes.CDLL(None, use_errno=True)


def _list_in(network: int) -> list[UnixSocket]:
    if _libc.setns(network, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(TIMEOUT_SECONDS)
        asked = ASKED.pack(socket.AF_UNIX, 0, 0, ANY, 0, SHOW_NAME | SHOW_PEER, ANY, ANY)
        asking.send(HEADER.pack(HEADER.size + len(asked), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + asked)
        return list(_answers(asking))


def _answers(asking: socket.socket) -> Iterator[UnixSocket]:
    while True:
        for kind, body in _parts(asking.recv(BUFFER), HEADER):
            if kind == DONE:
                return
            if kind == ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            yield _parsed(body)


def _parts(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message, or attribute; its header begins with its length and its type."""
    while len(data) >= header.size:
        length, kind, *_ = header.unpack_from(data)
        if length < header.size:
            return
        yield kind, data[header.size : length]
        data = data[(length + 3) & ~3 :]


def _parsed(body: bytes) -> UnixSocket:
    inode = ANSWER.unpack_from(body)[4]
    attributes = dict(_parts(body[ANSWER.size :], ATTRIBUTE))
    peer = attributes.get(PEER)
    return UnixSocket(
        inode=inode, peer=None if peer is None else struct.unpack("=I", peer)[0], named=bool(attributes.get(NAME))
    )
