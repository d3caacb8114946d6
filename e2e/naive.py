"""The control: a kubelet that is swapped the usual way restarts every container."""

import contextlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from e2e.lab.errors import LabError
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import ContainerInstance
from e2e.lab.process import wait_until
from nodeupgrade.kubelethash import compared_containers, hash_container

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


def expected(running: Iterable[ContainerInstance], pods: Iterable[dict[str, Any]], old: str, new: str) -> set[str]:
    """Return which of the running containers a naive swap restarts: those whose hash both kubelets compute differently.

    Args:
        running: containers of the node.
        pods: the pods of the API server.
        old: version of the kubelet that has started them.
        new: version of the one that is to find them.
    """
    changed = {place for pod in pods for place in _changed(pod, old, new)}
    return {container.id for container in running if (container.pod_uid, container.name) in changed}


def _changed(pod: dict[str, Any], old: str, new: str) -> Iterator[tuple[str, str]]:
    spec, compared = pod["spec"], compared_containers(pod, new)
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        if container["name"] in compared and hash_container(container, old) != hash_container(container, new):
            yield pod["metadata"]["uid"], container["name"]
