"""Which addresses a kubelet may be downloaded from, whatever its URL says and wherever it is redirected to."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from nodeupgrade.sources.parsing import SourceError, parse_origin, url_place

Address: TypeAlias = IPv4Address | IPv6Address

_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""NAT64: the last four bytes are an IPv4 address (RFC 6052)."""

_THIS_HOST: Final = IPv4Network("0.0.0.0/8")
"""Which some kernels take for the host itself (RFC 1122)."""

_METADATA: Final = frozenset(map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")))
"""Addresses of clouds' metadata services that are not link-local: Alibaba Cloud, Azure, Oracle Cloud, AWS over IPv6."""


def literal(host: str) -> Address | None:
    """Return the address that a host is, if it is not a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def internal_host_kind(host: str) -> str | None:
    """Return why a host must not be asked unless it is listed, as far as its name says; None if nothing is wrong."""
    name = host.lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "loopback"
    address = literal(name)
    return None if address is None else internal_address_kind(address)


def internal_address_kind(address: Address) -> str | None:
    """Return why an address must not be asked unless it is listed: it is the node's own, or its cloud's; else None."""
    if isinstance(address, IPv6Address) and (stands_for := embedded_ipv4(address)) is not None:
        return internal_address_kind(stands_for)
    if address.is_loopback or address.is_unspecified or address in _THIS_HOST:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    return "that of a metadata service" if address in _METADATA else None


def embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, if it does."""
    if address in _TRANSLATED:
        return IPv4Address(address.packed[12:])
    return address.ipv4_mapped or address.sixtofour


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPolicy:
    """Decides about addresses, at the moment when they are connected to."""

    # addresses that the operator's configuration names as such in ``urls``; a name allows no address
    listed: frozenset[Address] = frozenset()
    api_servers: frozenset[Address] = frozenset()  # addresses of API servers

    def problem(self, address: Address) -> str | None:
        """Return why an address must not be connected to, or None."""
        if address in self.listed:
            return None
        if isinstance(address, IPv6Address) and (stands_for := embedded_ipv4(address)) is not None:
            return self.problem(stands_for)
        inside = "an API server's" if address in self.api_servers else internal_address_kind(address)
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


def address_policy(urls: Iterable[str], api_servers: Iterable[str]) -> AddressPolicy:
    """Return what may be connected to, by the places of URLs that are allowed; hosts that are names are ignored."""
    listed = _addresses(url_place(url).host for url in urls)
    return AddressPolicy(listed=listed, api_servers=_addresses(api_servers))


def _addresses(hosts: Iterable[str]) -> frozenset[Address]:
    return frozenset(address for host in hosts if (address := literal(host)) is not None)
