"""The lab's network namespaces: one for the control plane with a bridge, one per node with a veth pair to it.

A machine has no namespace of its own, but a tap on the bridge.
"""

import ctypes
import os
from pathlib import Path

from e2e.lab import naming
from e2e.lab.process import run

_CLONE_NEWNET = 0x40000000


def namespace_file(name: str) -> Path:
    """Return the file of a named network namespace."""
    return Path("/run/netns") / name


def enter(namespace: Path) -> None:
    """Enter a network namespace with this thread, which keeps where it has been: nobody else may use it afterwards."""
    with namespace.open("rb") as door:
        if ctypes.CDLL(None, use_errno=True).setns(door.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(namespace))


def create_control_plane(lab: str) -> None:
    """Create the control plane's namespace with a bridge ``br0`` that forwards between nodes and pods."""
    name = naming.control_plane_namespace(lab)
    run("ip", "netns", "add", name)
    _in(name, "link", "set", "lo", "up")
    _in(name, "link", "add", "br0", "type", "bridge")
    _in(name, "address", "add", f"{naming.CONTROL_PLANE_ADDRESS}/24", "dev", "br0")
    _in(name, "link", "set", "br0", "up")
    run("ip", "netns", "exec", name, "tee", "/proc/sys/net/ipv4/ip_forward", stdin="1")


def forward_api_server(lab: str, address: str) -> None:
    """Make what asks the API server at the control plane's address in that namespace reach it at another one."""
    there = ("-d", naming.CONTROL_PLANE_ADDRESS, "-p", "tcp", "--dport", str(naming.API_PORT))
    way = ("-j", "DNAT", "--to-destination", f"{address}:{naming.API_PORT}")
    inside = ("ip", "netns", "exec", naming.control_plane_namespace(lab))
    run(*inside, "iptables", "-t", "nat", "-A", "OUTPUT", *there, *way)


def create_node(lab: str, node: str, addresses: naming.NodeAddresses) -> None:
    """Create a node's namespace, its link to the bridge and the routes in both directions."""
    hub, name = naming.control_plane_namespace(lab), naming.node_namespace(lab, node)
    run("ip", "netns", "add", name)
    _in(name, "link", "set", "lo", "up")
    _in(name, "link", "add", "eth0", "type", "veth", "peer", "name", addresses.port, "netns", hub)
    _in(hub, "link", "set", addresses.port, "master", "br0", "up")
    _in(name, "address", "add", f"{addresses.address}/24", "dev", "eth0")
    _in(name, "link", "set", "eth0", "up")
    _in(name, "route", "add", "default", "via", naming.CONTROL_PLANE_ADDRESS)
    _in(hub, "route", "add", addresses.pod_range, "via", addresses.address)


def create_machine(lab: str, addresses: naming.NodeAddresses) -> None:
    """Create the link of a machine to the bridge, which its emulator opens, and the route to its pods."""
    hub = naming.control_plane_namespace(lab)
    _in(hub, "tuntap", "add", "dev", addresses.port, "mode", "tap")
    _in(hub, "link", "set", addresses.port, "master", "br0", "up")
    _in(hub, "route", "add", addresses.pod_range, "via", addresses.address)


def create_twin(lab: str, node: str, addresses: naming.NodeAddresses) -> None:
    """Create a namespace for a node that stands in for a machine that is off, with the machine's addresses."""
    hub, name = naming.control_plane_namespace(lab), naming.node_namespace(lab, node)
    port = f"twin{addresses.number}"
    run("ip", "netns", "add", name)
    _in(name, "link", "set", "lo", "up")
    hardware = ("address", machine_address(addresses))  # which the bridge's other ends may know
    _in(name, "link", "add", "eth0", *hardware, "type", "veth", "peer", "name", port, "netns", hub)
    _in(hub, "link", "set", port, "master", "br0", "up")
    _in(name, "address", "add", f"{addresses.address}/24", "dev", "eth0")
    _in(name, "link", "set", "eth0", "up")
    _in(name, "route", "add", "default", "via", naming.CONTROL_PLANE_ADDRESS)


def machine_address(addresses: naming.NodeAddresses) -> str:
    """Return a machine's hardware address."""
    return f"52:54:00:00:00:{addresses.number:02x}"


def destroy_node(lab: str, node: str) -> None:
    """Remove a node's namespace, and with it its link."""
    run("ip", "netns", "delete", naming.node_namespace(lab, node))


def destroy(lab: str) -> None:
    """Remove every namespace of the lab, and with them its interfaces; does nothing if there is none."""
    for name in namespaces(lab):
        run("ip", "netns", "delete", name)


def namespaces(lab: str) -> list[str]:
    """Return the names of the lab's existing namespaces, nodes first."""
    hub = naming.control_plane_namespace(lab)
    found = [entry.name for entry in sorted(namespace_file("").glob(f"{hub}*"))]
    return [name for name in found if name.startswith(f"{hub}.")] + [name for name in found if name == hub]


def _in(namespace: str, *words: str) -> None:
    run("ip", "-n", namespace, *words)
