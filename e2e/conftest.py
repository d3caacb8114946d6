"""Labs for the end-to-end tests, always torn down: one that modules share, and one for each module that cannot.

Each process of the tests has one at a time: a lab that only stands there keeps a machine busy, too.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from e2e.cluster import Cluster
from e2e.lab import Lab, LabSpec
from e2e.lab.progress import Lines
from e2e.lanes import LANE, LANES
from e2e.shared import SharedNode

CONTROL_PLANE = "1.33.13"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests as needing the lab and time, and those that share a node, which come last.

    The others begin with the modules that take longest, which are marked or have most tests, and those that share a
    node end with them: runs that share the modules (e2e/lanes.py) meet where they are short.
    """
    for item in items:
        if "e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(3000))
        if "shared_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.shared_node)
    tests = Counter(item.path for item in items if not item.get_closest_marker("slow"))

    def place(item: pytest.Item) -> tuple[bool, bool, int, Path]:
        shared, long = (item.get_closest_marker(name) is not None for name in ("shared_node", "long"))
        return shared, not long, tests[item.path] if shared else -tests[item.path], item.path

    items.sort(key=place)


class MakeLab(Protocol):
    """Creates a lab of that name, replacing one that an earlier run left behind."""

    def __call__(
        self, name: str, kubelet: str, *, nodes: int = 1, runtime: str = "containerd", cluster: str = "plain"
    ) -> Lab:
        """Create it."""
        ...


def new_lab(name: str, kubelet: str, *, nodes: int = 1, runtime: str = "containerd", cluster: str = "plain") -> Lab:
    """Create a lab, replacing one of that name that an earlier run left behind."""
    spec = LabSpec(
        name=name, nodes=nodes, kubelet=kubelet, control_plane=CONTROL_PLANE, runtime=runtime, cluster=cluster
    )
    return Lab.anew(spec, Lines())


@pytest.fixture(scope="module")
def make_lab(shared_node: SharedNode) -> Iterator[MakeLab]:
    """Create labs, which are removed when the module is done."""
    with ExitStack() as stack:

        def make(
            name: str, kubelet: str, *, nodes: int = 1, runtime: str = "containerd", cluster: str = "plain"
        ) -> Lab:
            shared_node.down()
            lab = new_lab(name, kubelet, nodes=nodes, runtime=runtime, cluster=cluster)
            stack.callback(lab.down)
            return lab

        yield make


@pytest.fixture(scope="module")
def make_cluster(make_lab: MakeLab) -> Callable[..., Cluster]:
    """Create a lab of one node with the operator and a workload."""

    def make(name: str, kubelet: str, *, pods: int, static: bool = True, runtime: str = "containerd") -> Cluster:
        return Cluster.with_operator(make_lab(name, kubelet, runtime=runtime), pods=pods, static=static)

    return make


@pytest.fixture(scope="session")
def shared_node(request: pytest.FixtureRequest) -> Iterator[SharedNode]:
    """The node that modules share; there is none until one of them needs it. Each run of the tests has its own."""
    process = os.environ.get("PYTEST_XDIST_WORKER", request.config.getoption(LANE, default=LANES[0]))
    shared = SharedNode(lambda: new_lab(f"e2e-shared-{process}", "1.30.14"))
    yield shared
    shared.down()


@pytest.fixture(scope="module")
def shared_cluster(request: pytest.FixtureRequest, shared_node: SharedNode) -> Iterator[Callable[..., Cluster]]:
    """Lend the shared node to this module, which must leave it as it found it."""
    failed = request.session.testsfailed
    yield shared_node.lend
    if request.session.testsfailed > failed:
        shared_node.down()  # nobody knows what a test that failed has left
    else:
        shared_node.take_back()
