"""A representative part of the known faults, on one real node; `make e2e-faults` tries all of them.

Each run is judged by the same oracle: every instance is the same as before, every hash is of the era of the running
kubelet, nothing of ours is left, and the run ended by itself in a phase that the fault allows.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from e2e.cluster import Cluster, quickly
from e2e.faults.fault import upgrade_under
from e2e.faults.kinds import FAULTS
from e2e.faults.run import SETTLE

CHOSEN = (
    "at/rewrite-hashes.after-first-back/kill",
    "rescue/read-back.done",
    "disk/full",
    "kubelet/immutable",
    "drift/environment-file",
    "power/swap-binary.done",
)
"""The power cut comes last: it ends every container."""
GUARDED = frozenset({
    "at/rewrite-hashes.after-first-back/kill", "power/swap-binary.done",
})  # fmt: skip
"""Where the readiness guard must not be left behind. Elsewhere the fault has nothing to do with it, and to wait for
what the kubelet reports when it has ended takes longer than the run; `make e2e-faults` has it in every row.
"""
PODS = 14


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], str]:
    """Hashes seen so far, by container and version."""
    return {}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_node_ends_as_old_or_new(cluster: Cluster, known: dict[tuple[str, str], str], name: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    if name not in GUARDED:
        fault = replace(fault, spec={"verify": quickly(settle=SETTLE)} | fault.spec)

    row = upgrade_under(cluster, fault, known)

    print(f"{name}: {row.ended}, without a kubelet for {row.down or '-'} s; {row.notes}")
    assert row.complaints == []
