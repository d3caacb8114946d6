"""Whose pods they are, and which findings are one thing to do."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.cluster.pod_owner import owner_of, with_owners
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.ranking import ranked


def pod(name: str, *owners: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": list(owners), **metadata}}


def owner(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": True, **fields}


REPLICAS = owner("ReplicaSet", "web-5d4f8c")
HASHED = {"labels": {"pod-template-hash": "5d4f8c"}}
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


def found(subject: str, *, check: str = "placements_are_met", **fields: Any) -> Finding:
    return Finding(
        **{"reason": Reason.NODE_AFFINITY_NOT_MET, "detail": "x", "subject": subject, "check": check, **fields}
    )


def test_findings_with_one_remedy_are_one_group_and_what_forbids_comes_first() -> None:
    pods = [parse_pod(pod(f"web-5d4f8c-{n}", REPLICAS, **HASHED)) for n in range(3)] + [parse_pod(pod("alone"))]
    findings = (
        found("", check="readiness_probes_succeed", reason=Reason.PROBE_FAILS),
        found("", check="node_is_not_at_target", reason=Reason.ALREADY_AT_TARGET),
        found("shop/alone", severity=Severity.WARN, accepted=True),
        *(found(f"shop/web-5d4f8c-{n}") for n in range(3)),
        found("shop/alone/main"),
        found("shop/alone/sidecar"),
        found("shop/alone", remedy="something else"),
        found("", check="there_is_space", reason=Reason.INSUFFICIENT_SPACE),
        found("", check="there_is_space", reason=Reason.INSUFFICIENT_SPACE),
    )

    groups = ranked(with_owners(findings, pods))

    assert [(group.first.check, len(group.pods), group.owners) for group in groups] == [
        ("placements_are_met", 4, (("Deployment shop/web", 3), ("bare pod shop/alone", 1))),
        ("placements_are_met", 1, (("bare pod shop/alone", 1),)),
        ("there_is_space", 0, ()),
        ("there_is_space", 0, ()),
        ("node_is_not_at_target", 0, ()),
        ("readiness_probes_succeed", 0, ()),
        ("placements_are_met", 1, (("bare pod shop/alone", 1),)),
    ]
