"""Tests how PersistentVolumeClaims are read with the kubelet's credentials."""

from typing import Any

import pytest

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.running_kubelet.kubelet import Answer
from tests.builders.sound import pod, readiness
from tests.builders.surrounded_host import KUBECONFIG, Host, Server, known

V = KubeletVersion.parse


CLAIMING = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
]
DEFECTIVE = V("v1.32.3")


def claiming(target: KubeletVersion, layout: Any = None) -> NodeFacts:
    words = read_layout((f"--kubeconfig={KUBECONFIG}",)) if layout is None else layout
    return known(target=target, pods=(parse_pod(pod(volumes=CLAIMING)),), readiness=readiness(layout=words))


def test_claims_are_read_for_a_kubelet_that_heeds_their_deletion() -> None:
    server = Server(Answer(200, '{"metadata": {"deletionTimestamp": "2026-11-21T05:45:28Z"}}'), Answer(404, ""))

    found = look_at_surroundings(Host(server), claiming(DEFECTIVE))
    assert found.claims == (
        VolumeClaim(pod="default/web", name="data", deleting=True),
        VolumeClaim(pod="default/web", name="web-scratch", unread="HTTP 404"),
    )
    assert server.asked == [
        "/api/v1/namespaces/default/persistentvolumeclaims/data",
        "/api/v1/namespaces/default/persistentvolumeclaims/web-scratch",
    ]


def test_claims_are_not_read_for_any_other_kubelet() -> None:
    assert look_at_surroundings(Host(), claiming(V("v1.33.13"))).claims == ()


@pytest.mark.parametrize(
    ("server", "layout", "unread", "asked"),
    [
        (Server(), None, ["nobody answers"] * 2, 1),
        (Server(Answer(200, "[]"), Answer(200, '{"metadata": {}}')), None, ["the answer is not understood", ""], 2),
        (None, None, ["no credentials"] * 2, 0),
        (Server(), read_layout(()), ["it has no kubeconfig"] * 2, 0),
    ],
)
def test_a_claim_that_cannot_be_read_is_told(server: Server | None, layout: Any, unread: list[str], asked: int) -> None:
    found = look_at_surroundings(Host(server), claiming(DEFECTIVE, layout))

    assert [claim.unread for claim in found.claims] == unread
    assert len([] if server is None else server.asked) == asked
