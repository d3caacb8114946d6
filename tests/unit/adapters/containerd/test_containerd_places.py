"""Where a containerd says that it keeps everything."""

import json

import pytest

from nodeupgrade.node.runtimes.containerd import containerd
from nodeupgrade.node.runtimes.description import RuntimePlaces

TOLD = {
    "containerdRootDir": "/var/lib/containerd",
    "stateDir": "/run/containerd/io.containerd.grpc.v1.cri",
    "containerdEndpoint": "/run/c.sock",
}


@pytest.mark.parametrize(
    ("info", "places"),
    [
        (
            {"config": json.dumps(TOLD)},
            RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/c.sock"),
        ),
        ({}, None),
        ({"config": "no JSON"}, None),
        ({"config": "[]"}, None),
        ({"config": json.dumps({**TOLD, "stateDir": ""})}, None),
        ({"config": json.dumps({"containerdRootDir": "/x"})}, None),
    ],
)
def test_places_are_told_completely_or_not_at_all(info: dict[str, str], places: RuntimePlaces | None) -> None:
    assert containerd.places(info) == places
