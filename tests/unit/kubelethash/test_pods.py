"""Tests which containers of a Pod a kubelet compares."""

from typing import Any

import pytest

from nodeupgrade.kubelethash import UnreadablePod, compared_containers


@pytest.mark.parametrize(("kubelet", "names"), [("1.5", ("main",)), ("1.31", ("main",)), ("1.32", ("main", "sidecar"))])
def test_sidecars_are_compared_from_1_32_on(kubelet: str, names: tuple[str, ...]) -> None:
    spec = {
        "initContainers": [{"name": "once"}, {"name": "sidecar", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    assert compared_containers({"spec": spec}, kubelet) == names


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ({}, "spec"),
        ({"spec": {}}, "spec.containers"),
        ({"spec": {"containers": [], "initContainers": {}}}, "spec.initContainers"),
    ],
)
def test_what_is_not_a_pod_is_refused(broken: dict[str, Any], path: str) -> None:
    with pytest.raises(UnreadablePod) as refused:
        compared_containers(broken, "1.33")
    assert refused.value.path == path
