"""Tests how findings are grouped and ordered."""

from typing import Any

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.cluster.pod_owner import with_owners
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.ranking import ranked
from tests.builders.owned_pods import HASHED, REPLICAS, pod


def found(subject: str, *, check: str = "placements_are_met", **fields: Any) -> Finding:
    return Finding(
        **{"reason": Reason.NODE_AFFINITY_NOT_MET, "detail": "x", "subject": subject, "check": check, **fields}
    )


def test_findings_with_one_remedy_are_one_group_and_what_forbids_comes_first() -> None:
    pods = [parse_pod(pod(f"web-5d4f8c-{n}", REPLICAS, **HASHED)) for n in range(3)] + [parse_pod(pod("alone"))]
    findings = (
        found("", check="readiness_probes_succeed", reason=Reason.READINESS_PROBE_FAILING),
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
