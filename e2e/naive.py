"""The control: a kubelet that is swapped the usual way restarts every container."""

import contextlib
from collections.abc import Collection

from e2e.lab.errors import LabError
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until

_SECONDS = 120.0
"""A container may take its grace period to end, and a busy machine as long to start another one."""


def survivors(node: Node, version: str) -> set[str]:
    """Swap a node's kubelet the usual way, and return the containers that ran before and were not restarted.

    Sidecars do not count: no kubelet before 1.32 compares their hash.
    """
    before = {container.id for container in node.settled(quiet=2).running() if container.name != "sidecar"}
    node.swap_naively(version)
    return wait_restarted(node, before)


def wait_restarted(node: Node, containers: Collection[str]) -> set[str]:
    """Wait until none of these containers runs; return those that still do after a time that suits a busy machine."""

    def left() -> set[str]:
        return set(containers) & {container.id for container in node.snapshot().running()}

    with contextlib.suppress(LabError):
        wait_until("the restart of every container", lambda: not left(), timeout=_SECONDS, interval=1)
    return left()
