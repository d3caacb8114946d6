import ipaddress
from pathlib import Path

import pytest

from e2e.lab import LabError, LabSpec, naming
from e2e.lab.host import network
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


@pytest.mark.parametrize("name", ["", "Lab", "a/b", "../x", "a.b", "-a", "a--b", "1a", "x" * 31])
def test_names_that_would_not_fit_everywhere_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="as a name"):
        LabSpec(name=name)


def test_a_lab_never_takes_the_namespaces_of_one_whose_name_begins_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lab in ("a", "ab", "a-b"):
        (tmp_path / naming.control_plane_namespace(lab)).touch()
        (tmp_path / naming.node_namespace(lab, "node1")).touch()
    monkeypatch.setattr(network, "namespace_file", lambda name: tmp_path / name)
    assert network.namespaces("a") == ["nodeupgrade-lab.a.node1", "nodeupgrade-lab.a"]
    assert network.namespaces("c") == []
