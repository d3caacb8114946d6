"""Which addresses a kubelet may be downloaded from, whatever its URL says and wherever it is redirected to."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address

from nodeupgrade.domain.rollout.allowed import Allowed
from nodeupgrade.domain.rollout.sources import (
    Address,
    SourceError,
    address_inside,
    literal,
    meant,
    parse_origin,
    url_place,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Decides about addresses, at the moment when they are connected to."""

    # addresses that the operator's configuration names as such in ``urls``; a name allows no address
    listed: frozenset[Address] = frozenset()
    api_servers: frozenset[Address] = frozenset()  # addresses of API servers

    def problem(self, address: Address) -> str | None:
        """Return why an address must not be connected to, or None."""
        if address in self.listed:
            return None
        if isinstance(address, IPv6Address) and (stands_for := meant(address)) is not None:
            return self.problem(stands_for)
        inside = "an API server's" if address in self.api_servers else address_inside(address)
        if inside is None:
            return None
        return f"its address {address} is {inside}, and allowed.urls does not list that address"

    def problem_of_url(self, url: str) -> str | None:
        """Return why a URL must not be asked for, as far as its text says, or None."""
        try:
            host = parse_origin(url).host
        except SourceError as error:
            return str(error)
        address = literal(host)
        return None if address is None else self.problem(address)


def reach_of(allowed: Allowed | None, api_servers: Iterable[str]) -> Reach:
    """Return what may be connected to.

    Args:
        allowed: The operator's configuration; None if it is not known, so that nothing is listed.
        api_servers: Hosts of API servers; those that are names are ignored.
    """
    hosts = (url_place(url).host for url in (() if allowed is None else allowed.urls))
    return Reach(listed=_addresses(hosts), api_servers=_addresses(api_servers))


def _addresses(hosts: Iterable[str]) -> frozenset[Address]:
    return frozenset(address for host in hosts if (address := literal(host)) is not None)
