"""What people see of nodes that are annotated to be held or skipped."""

import pytest

from nodeupgrade.api.node_annotations import HOLD_ANNOTATION, SKIP_ANNOTATION
from nodeupgrade.ports.kube import NODES
from tests.doubles.kube import merged
from tests.golden.cli.cluster import FILES, WORLD, Cluster, check

ANNOTATED = {
    "db-1": {HOLD_ANNOTATION: "INC-7, until Monday"},
    "db-3": {SKIP_ANNOTATION: "true"},
    "web-b-1": {HOLD_ANNOTATION: "true"},
}


def test_nodes_that_are_held_or_skipped_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster = Cluster(*WORLD)
    for name, words in ANNOTATED.items():
        cluster.add(merged(cluster.get(NODES, name), {"metadata": {"annotations": words}}))
    lines = ("plan databases.yaml", "explain-node web-b-1")
    check("held.txt", (cluster.run(f"nodeupgrade {line}") for line in lines))
