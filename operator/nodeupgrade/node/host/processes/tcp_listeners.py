"""The TCP sockets of a network namespace at which somebody listens, as the kernel lists them (inet_diag)."""

import socket
import struct
from dataclasses import dataclass

from nodeupgrade.node.host.processes.sock_diag import list_sockets

LISTENING = 1 << 10
"""States that are asked for: the number of TCP_LISTEN in the kernel's include/net/tcp_states.h."""
REQUEST, ANSWER = struct.Struct("=BBBBI48x"), struct.Struct("=BBBB2s2x16s16x12xIIIII")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """One socket."""

    address: str
    port: int
    inode: int


def listening_sockets(network: int) -> list[ListeningSocket]:
    """Return the sockets of IPv4 and IPv6 in a network namespace.

    Args:
        network: file descriptor of the namespace.

    Raises:
        OSError: the kernel does not answer.
    """
    families = (socket.AF_INET, socket.AF_INET6)
    requests = (REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, LISTENING) for family in families)
    return [found for request in requests for found in list_sockets(network, request, _parsed)]


def _parsed(body: bytes) -> ListeningSocket:
    family, _state, _timer, _retransmits, port, source, *_queues, inode = ANSWER.unpack_from(body)
    length = 4 if family == socket.AF_INET else 16
    return ListeningSocket(
        address=socket.inet_ntop(family, source[:length]), port=int.from_bytes(port, "big"), inode=inode
    )
