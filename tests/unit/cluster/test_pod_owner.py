"""Tests which workload a pod belongs to."""

from typing import Any

import pytest

from nodeupgrade.cluster.pod_owner import owner_of
from nodeupgrade.cluster.pods import parse_pod
from tests.builders.owned_pods import HASHED, REPLICAS, owner, pod

MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x"}}


@pytest.mark.parametrize(
    ("body", "whose"),
    [
        (pod("web-5d4f8c-x", REPLICAS, **HASHED), "Deployment shop/web"),
        (pod("web-5d4f8c-x", REPLICAS), "ReplicaSet shop/web-5d4f8c"),
        (pod("db-0", owner("StatefulSet", "db")), "StatefulSet shop/db"),
        (pod("proxy", owner("Node", "node-a"), **MIRROR), "static pod shop/proxy"),
        (pod("alone"), "bare pod shop/alone"),
        (pod("alone", owner("Thing", "x", controller=False), "nonsense"), "bare pod shop/alone"),
        (pod("odd", ownerReferences={}), "bare pod shop/odd"),
    ],
)
def test_whose_pod_it_is(body: dict[str, Any], whose: str) -> None:
    assert owner_of(parse_pod(body)) == whose
