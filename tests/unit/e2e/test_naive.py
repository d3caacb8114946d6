"""Tests which restarts the control of a pair waits for."""

from dataclasses import replace
from typing import Any

import pytest

from e2e.naive import expected
from tests.builders.lab import CONTAINER

POD: dict[str, Any] = {
    "metadata": {"uid": "uid-of-web", "name": "web", "namespace": "shop"},
    "spec": {
        "containers": [{"name": "app", "image": "app"}],
        "initContainers": [
            {"name": "sidecar", "image": "sidecar", "restartPolicy": "Always"},
            {"name": "init", "image": "init"},
        ],
    },
}
RUNNING = [
    replace(CONTAINER, id="1", name="app", pod_uid="uid-of-web"),
    replace(CONTAINER, id="2", name="sidecar", pod_uid="uid-of-web"),
    replace(CONTAINER, id="3", name="app", pod_uid="uid-of-another"),
]


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        ("1.30.14", "1.31.4", {"1"}),
        ("1.30.14", "1.33.13", {"1", "2"}),
        ("1.31.4", "1.33.13", set()),
        ("1.33.13", "1.30.14", {"1"}),
    ],
)
def test_those_whose_hash_both_kubelets_compute_differently(old: str, new: str, due: set[str]) -> None:
    assert expected(RUNNING, [POD], old, new) == due
