"""Which nodes give shims more time, and what the others say."""

import pytest

from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.engine.node import shim_limit
from nodeupgrade.simulation.node import SimulatedNode, pod_json
from nodeupgrade.simulation.node.services import RUNTIME_UNIT

CONTAINERD = "/usr/bin/containerd"


def unit(*command: str) -> UnitStatus:
    return UnitStatus(
        name=RUNTIME_UNIT, load_state="loaded", active_state="active", sub_state="running", main_pid=1, command=command
    )


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, (CONTAINERD,)),
        ({"/etc/containerd/config.toml": b"version = 2\n"}, (CONTAINERD, "--log-level", "info")),
        ({"/opt/c.toml": b"version = 2\n"}, (CONTAINERD, "-c", "/opt/c.toml")),
    ],
)
def test_a_start_that_is_understood_is_given_more_time(files: dict[str, bytes], command: tuple[str, ...]) -> None:
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
    node.disk.update(files)
    known = len(node.calls.effects)

    found = shim_limit.find(node.ports, unit(*command))

    assert found.raised
    assert node.calls.effects[known:] == [], "looking touches nothing"


@pytest.mark.parametrize(
    ("command", "own", "mute", "why"),
    [
        ((), b"", False, "no command"),
        (("/usr/bin/env", "containerd"), b"", False, "a way that is not known"),
        ((CONTAINERD,), b"version = 2\n", True, "does not show its configuration"),
        ((CONTAINERD,), b"version = = 2\n", False, "Invalid value"),
        ((CONTAINERD,), b"version = 3\n", False, "cannot be imported without changing anything else"),
    ],
)
def test_whatever_speaks_against_it_is_said(command: tuple[str, ...], own: bytes, mute: bool, why: str) -> None:
    """The last one is of a version that the runtime does not show for its own configuration."""
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
    node.disk["/etc/containerd/config.toml"] = own
    node.runtime.troubles.mute = mute

    found = shim_limit.find(node.ports, unit(*command))

    assert not found.raised
    assert why in found.why
