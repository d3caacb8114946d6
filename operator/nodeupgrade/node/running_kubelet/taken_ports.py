"""Who keeps a kubelet from listening at its ports. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from nodeupgrade.kubelet.served_ports import ServedPort

EVERYWHERE = IPv6Address(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A process of the node that listens at a TCP port."""

    address: str
    port: int
    pid: int | None  # None if no process is found that has the socket
    who: str = ""  # its name and its unit, for messages; anybody may choose the name

    def __str__(self) -> str:
        name = f"{self.who or 'a program'} (process {self.pid})" if self.pid is not None else "an unknown process"
        return f"{name} listens on {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenPort:
    """A port that a kubelet would not get."""

    served: ServedPort
    by: Listener | None  # None if connections are led elsewhere

    def __str__(self) -> str:
        by = self.by or "connections do not arrive at the kubelet, as with a pod that has it as its hostPort"
        return f"port {self.served.port} ({self.served.setting}) is taken: {by}"


def taken_ports(
    served: Iterable[ServedPort], listeners: Iterable[Listener], kubelet: int, *, diverted: Callable[[], bool]
) -> Iterator[TakenPort]:
    """Yield the ports that another process has, or at which others are reached than who listens.

    Where the kubelet itself listens, a kubelet can listen again once it is stopped, whoever listens beside it.

    Args:
        served: the ports of a kubelet that is to be started.
        listeners: who listens at these ports now.
        kubelet: PID of the kubelet that runs, or 0.
        diverted: as Kubelet.diverted; asked only where the kubelet has its health endpoint.
    """
    listeners = tuple(listeners)
    for each in served:
        at = _parsed(each.address)
        here = [(listener, _parsed(listener.address)) for listener in listeners if listener.port == each.port]
        if any(listener.pid == kubelet and (address == at or address.is_unspecified) for listener, address in here):
            if not each.is_vital and diverted():
                yield TakenPort(served=each, by=None)
            continue
        others = (listener for listener, address in here if listener.pid != kubelet and _collide(at, address))
        if (other := next(others, None)) is not None:
            yield TakenPort(served=each, by=other)


def is_taken_by(address: str, other: str) -> bool:
    """Report whether who listens at a port of the ``other`` address has that of this one."""
    return _collide(_parsed(address), _parsed(other))


def _parsed(address: str) -> IPv4Address | IPv6Address:
    """Return an address; that of all addresses for what is none."""
    try:
        found = ip_address(address)
    except ValueError:
        return EVERYWHERE
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _collide(kubelets: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address) -> bool:
    """Report whether a kubelet cannot listen at a port if another process does.

    Who listens on all addresses of IPv6 usually has those of IPv4 too; a kubelet that listens on all always has both.
    """
    if other.is_unspecified and not kubelets.is_unspecified:
        return other.version >= kubelets.version
    return kubelets.is_unspecified or kubelets == other
