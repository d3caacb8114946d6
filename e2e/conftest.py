"""Labs for the end-to-end tests: one for each module, always torn down.

Modules may run concurrently in separate processes; their labs have different names and do not share anything.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from e2e.cluster import Cluster
from e2e.lab import Lab, LabSpec
from e2e.lab.progress import Lines

CONTROL_PLANE = "1.33.13"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests as needing the lab and time."""
    for item in items:
        if "e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(3000))


class MakeLab(Protocol):
    """Creates a lab of that name, replacing one that an earlier run left behind."""

    def __call__(self, name: str, kubelet: str, *, nodes: int = 1) -> Lab:
        """Create it."""
        ...


@pytest.fixture(scope="module")
def make_lab() -> Iterator[MakeLab]:
    """Create labs, which are removed when the module is done."""
    with ExitStack() as stack:

        def make(name: str, kubelet: str, *, nodes: int = 1) -> Lab:
            stale = next((lab for lab in Lab.list() if lab.name == name), None)
            if stale is not None:
                stale.down()
            lab = Lab.up(LabSpec(name=name, nodes=nodes, kubelet=kubelet, control_plane=CONTROL_PLANE), Lines())
            stack.callback(lab.down)
            return lab

        yield make


@pytest.fixture(scope="module")
def make_cluster(make_lab: MakeLab) -> Callable[..., Cluster]:
    """Create a lab of one node with the operator and a workload."""

    def make(name: str, kubelet: str, *, pods: int, static: bool = True) -> Cluster:
        return Cluster.with_operator(make_lab(name, kubelet), pods=pods, static=static)

    return make
