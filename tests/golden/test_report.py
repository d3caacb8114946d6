"""The page of a rollout as a browser gets it. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden; look at it."""

import pytest

from tests.golden.cli.cluster import WORLD, Cluster, check


@pytest.mark.parametrize(("rollout", "golden"), [("kubelet-1-33-13", "running"), ("kubelet-1-30-14", "nodes-gone")])
def test_the_page(rollout: str, golden: str) -> None:
    printed = Cluster(*WORLD).run(f"nodeupgrade report {rollout}")
    page = printed.partition("\n")[2].rstrip("\n") + "\n"
    check(f"report-{golden}.html", [page])
