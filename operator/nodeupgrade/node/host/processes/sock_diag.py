"""Asks the kernel for the sockets of a network namespace (sock_diag(7))."""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_SECONDS = 5.0
CLONE_NEWNET = 0x40000000
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST_DUMP = 0x1 | 0x300
ERROR, DONE = 2, 3
"""Types of messages."""
HEADER = struct.Struct("=IHHII")
BUFFER = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)


def list_sockets(network: int, request: bytes, parse: Callable[[bytes], T]) -> list[T]:
    """Return what the kernel answers to a request for a list of sockets.

    Args:
        network: file descriptor of the namespace.
        request: the request, without the header of its message.
        parse: returns one socket, given the body of a message.

    Raises:
        OSError: the kernel does not answer, or has no thread left.
    """
    with ThreadPoolExecutor(max_workers=1) as inside:  # a thread of its own changes its namespace, and ends
        try:
            listed = inside.submit(_list_in, network, request, parse)
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        return listed.result()


def parts(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message, or attribute; its header begins with its length and its type."""
    while len(data) >= header.size:
        length, kind, *_ = header.unpack_from(data)
        if length < header.size:
            return
        yield kind, data[header.size : length]
        data = data[(length + 3) & ~3 :]


def _list_in(network: int, request: bytes, parse: Callable[[bytes], T]) -> list[T]:
    if _libc.setns(network, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + request)
        return [parse(body) for body in _answers(connection)]


def _answers(connection: socket.socket) -> Iterator[bytes]:
    while True:
        for kind, body in parts(connection.recv(BUFFER), HEADER):
            if kind == DONE:
                return
            if kind == ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            yield body
