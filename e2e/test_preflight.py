"""A few hazards, one of each kind, on the shared node; `make e2e-preflight` makes all of them.

Each must be found by one check with its reason, and by no other, and the node must then be as it was.
"""

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster
from e2e.preflight.kinds import ROWS
from e2e.preflight.row import show

PODS = 8
CHOSEN = (
    "asked/digest",
    "node/label-gone",
    "kubelet/state-policy",
    "runtime/bound",
    "pod/resize-policy",
    "admission/max-pods",
)


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_hazard_is_found_by_its_check_and_no_other(cluster: Cluster, name: str) -> None:
    outcome = show(cluster, next(row for row in ROWS if row.name == name))

    print(f"{name}: {outcome.ended}, {outcome.said}")
    assert outcome.complaints == []
