"""The unix sockets of a network namespace with their peers, as the kernel lists them (sock_diag(7), unix_diag).

``/proc/net/unix`` does not show peers. The kernel puts both ends of a connection into the network namespace of the
process that connected, wherever the other one listens.
"""

import socket
import struct
from dataclasses import dataclass

from nodeupgrade.node.host.processes.sock_diag import list_sockets, parts


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixSocket:
    """One socket."""

    inode: int
    peer: int | None  # inode of the socket that it is connected to; None if there is none
    named: bool  # whether it has an address; an accepted connection has that of the listening socket


def unix_sockets(network: int) -> dict[int, UnixSocket]:
    """Return the unix sockets of a network namespace by their inodes.

    Args:
        network: file descriptor of the namespace.

    Raises:
        OSError: the kernel does not answer.
    """
    request = REQUEST.pack(socket.AF_UNIX, 0, 0, ANY, 0, SHOW_NAME | SHOW_PEER, ANY, ANY)
    return {found.inode: found for found in list_sockets(network, request, _parsed)}


SHOW_NAME, SHOW_PEER = 0x1, 0x4
ANY = 0xFFFFFFFF
NAME, PEER = 0, 2
"""Attributes of an answer."""
REQUEST, ANSWER, ATTRIBUTE = map(struct.Struct, ("=BBHIIIII", "=BBBBIII", "=HH"))


def _parsed(body: bytes) -> UnixSocket:
    inode = ANSWER.unpack_from(body)[4]
    attributes = dict(parts(body[ANSWER.size :], ATTRIBUTE))
    peer = attributes.get(PEER)
    return UnixSocket(
        inode=inode, peer=None if peer is None else struct.unpack("=I", peer)[0], named=bool(attributes.get(NAME))
    )
