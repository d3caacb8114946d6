"""The unix sockets of a network namespace with their peers, as the kernel lists them (sock_diag(7), unix_diag).

``/proc/net/unix`` does not show peers. The kernel puts both ends of a connection into the network namespace of the
process that connected, wherever the other one listens.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


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
    with ThreadPoolExecutor(max_workers=1) as inside:  # a thread of its own changes its namespace, and ends
        return {found.inode: found for found in inside.submit(_list_in, network).result()}


TIMEOUT_SECONDS = 5.0
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
HEADER, REQUEST, ANSWER, ATTRIBUTE = map(struct.Struct, ("=IHHII", "=BBHIIIII", "=BBBBIII", "=HH"))
BUFFER = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)


def _list_in(network: int) -> list[UnixSocket]:
    if _libc.setns(network, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        request = REQUEST.pack(socket.AF_UNIX, 0, 0, ANY, 0, SHOW_NAME | SHOW_PEER, ANY, ANY)
        connection.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + request)
        return list(_answers(connection))


def _answers(connection: socket.socket) -> Iterator[UnixSocket]:
    while True:
        for kind, body in _parts(connection.recv(BUFFER), HEADER):
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
