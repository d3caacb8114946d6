"""Labs for the end-to-end tests: one at a time, taken down whatever happens."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.cluster import Cluster
from e2e.lab import Lab, LabSpec
from e2e.lab.progress import Lines

CONTROL_PLANE = "1.33.13"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the lab, and time."""
    for item in items:
        if "e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(1500))


@pytest.fixture(scope="module")
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Make a lab with the operator and a workload; it is gone when the module is done."""
    with ExitStack() as stack:

        def make(name: str, kubelet: str, *, pods: int, static: bool = True) -> Cluster:
            stale = next((lab for lab in Lab.list() if lab.name == name), None)
            if stale is not None:
                stale.down()
            lab = Lab.up(LabSpec(name=name, nodes=1, kubelet=kubelet, control_plane=CONTROL_PLANE), Lines())
            stack.callback(lab.down)
            return Cluster.with_operator(lab, pods=pods, static=static)

        yield make
