"""Tests the addresses of nodes and Services in the lab."""

import ipaddress

from e2e.lab import naming
from e2e.lab.naming import NodeAddresses


def test_every_node_has_addresses_of_its_own_inside_the_ranges() -> None:
    nodes = [NodeAddresses(number) for number in range(1, naming.MAX_NODES + 1)]
    assert len({node.address for node in nodes} | {naming.CONTROL_PLANE_ADDRESS}) == naming.MAX_NODES + 1
    pods = [ipaddress.IPv4Network(node.pod_range) for node in nodes]
    assert len(set(pods)) == naming.MAX_NODES
    assert all(one.subnet_of(ipaddress.IPv4Network(naming.POD_RANGE)) for one in pods)
    assert all(ipaddress.ip_address(node.address) in ipaddress.ip_network("10.240.0.0/24") for node in nodes)
    assert max(len(node.port) for node in nodes) <= 15


def test_a_service_address_is_the_first_of_its_range() -> None:
    assert ipaddress.ip_network(naming.SERVICE_RANGE)[1] == ipaddress.ip_address(naming.SERVICE_ADDRESS)
