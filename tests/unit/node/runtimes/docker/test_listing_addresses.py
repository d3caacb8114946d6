"""Tests for finding the IP address of a Pod that runs in Docker."""

from nodeupgrade.node.runtimes.docker.listing import pod_address
from tests.builders.docker_node import Node

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.244.1.0/24 2 0 2
        |-- 10.244.1.6
           /32 host LOCAL
        |-- 10.244.1.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
"""


def test_the_address_of_a_pod_is_the_one_that_is_local_to_its_network(node: Node) -> None:
    node.process(9, "sleep", 8)
    assert pod_address(node.processes, 9) == ""
    six = "fd000000000000000000000000000005 02 40 00 80 eth0\nfe80000000000000000000000000cafe 02 40 20 80 eth0\n"
    node.network(9, if_inet6=six)
    assert pod_address(node.processes, 9) == "fd000000000000000000000000000005"
    node.network(9, fib_trie=TRIE)
    assert pod_address(node.processes, 9) == "10.244.1.6"
