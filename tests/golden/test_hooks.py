"""What people see of the hooks of a node."""

import pytest

from nodeupgrade.ports.kube import TASKS
from tests.doubles.kube import merged
from tests.golden.cli.cluster import FILES, WORLD, Cluster, check

HOOKS = [
    {"phase": "Before", "template": "set-noout", "timeoutSeconds": 60, "result": "Succeeded"},
    {
        "phase": "After",
        "template": "unset-noout",
        "timeoutSeconds": 60,
        "result": "Failed",
        "message": "Job unset-noout-after-web-b-1-0123456789: Job has reached the specified backoff limit",
    },
    {"phase": "After", "template": "unsilence", "timeoutSeconds": 60},
]


def test_the_hooks_of_a_node_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster = Cluster(*WORLD)
    cluster.add(merged(cluster.get(TASKS, "web-b-1"), {"spec": {"hooks": HOOKS}}))

    check("hooks.txt", [cluster.run("nodeupgrade explain-node web-b-1")])
