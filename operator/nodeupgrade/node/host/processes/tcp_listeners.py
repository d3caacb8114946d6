"""The TCP sockets of a network namespace, as the kernel lists them (inet_diag): who listens, and who is reached."""

import socket
import struct
from dataclasses import dataclass

from nodeupgrade.node.host.processes.sock_diag import list_sockets

ANY, LISTENING = 0xFFF, 1 << 10
"""States that are asked for: all, or the number of TCP_LISTEN in the kernel's include/net/tcp_states.h."""
FAMILIES = (socket.AF_INET, socket.AF_INET6)
REQUEST, ANSWER = struct.Struct("=BBBBI2s2s44x"), struct.Struct("=BBBB2s2x16s16x12xIIIII")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """One socket."""

    address: str
    port: int
    inode: int
    full: bool = False  # whether as many connections wait for it as may


def listening_sockets(network: int) -> list[ListeningSocket]:
    """Return the sockets of IPv4 and IPv6 in a network namespace.

    Args:
        network: file descriptor of the namespace.

    Raises:
        OSError: the kernel does not answer.
    """
    return _listed(network, LISTENING)


def is_accepted(network: int, *, at: int, by: int) -> bool:
    """Report whether a network namespace has the end at port ``at`` of a connection from port ``by``.

    Args:
        network: file descriptor of the namespace.
        at: the port that was connected to.
        by: the port that the connection comes from.

    Raises:
        OSError: the kernel does not answer.
    """
    return bool(_listed(network, ANY, at, by))


def _listed(network: int, states: int, port: int = 0, peer: int = 0) -> list[ListeningSocket]:
    ends = port.to_bytes(2, "big"), peer.to_bytes(2, "big")
    requests = (REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, states, *ends) for family in FAMILIES)
    return [found for request in requests for found in list_sockets(network, request, _parsed)]


def _parsed(body: bytes) -> ListeningSocket:
    family, _state, _timer, _retransmits, port, source, _expires, waiting, limit, _uid, inode = ANSWER.unpack_from(body)
    length = 4 if family == socket.AF_INET else 16
    return ListeningSocket(
        address=socket.inet_ntop(family, source[:length]),
        port=int.from_bytes(port, "big"),
        inode=inode,
        full=waiting > limit,
    )
