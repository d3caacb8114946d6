"""Tests which leftover files the oracle looks for."""

from fnmatch import fnmatch

from e2e.faults.oracle import LEFT_OVER
from e2e.lab.runtimes.crio import STORAGE
from nodeupgrade.node.runtimes.description import SOCKETS_BESIDE


def test_what_a_run_may_leave_on_a_node_is_looked_for() -> None:
    left = (f"run/crio/{SOCKETS_BESIDE[0]}", f"{STORAGE}/c1/userdata/.state.json.nodeupgrade-new")
    assert [any(fnmatch(path, pattern) for pattern in LEFT_OVER) for path in left] == [True, True]
