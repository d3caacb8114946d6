"""What is to be done, summed up over nodes: what the operator finds, and what nodes report."""

from dataclasses import replace

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.task.status import PodOwner, ReportedHazard
from nodeupgrade.api.values import NodeName
from nodeupgrade.cli.reports.todo import Todo, todo
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.node_state import NodeState, Place

UNMET = Finding(
    reason=Reason.NODE_AFFINITY_NOT_MET,
    detail="its node selector requires a label",
    subject="shop/web-0",
    check="placements_are_met",
    owner="StatefulSet shop/web",
)
ACCEPTED = replace(UNMET, severity=Severity.WARN, accepted=True)
REPORTED = ReportedHazard(
    reason=Reason.NODE_AFFINITY_NOT_MET,
    check="placements_are_met",
    pod="shop/web-1",
    detail="its node selector requires a label",
    pods=7,
    owners=(PodOwner(name="StatefulSet shop/web", pods=5), PodOwner(name="bare pod shop/x", pods=1)),
    warning=True,
    accepted=True,
)
FROM_TOMORROW = ReportedHazard(reason="NotInventedYet", detail="something", warning=True)


def member(name: str, place: Place, reason: Reason = Reason.PROGRESSING, message: str = "") -> NodeState:
    return NodeState(node=NodeName(name), place=place, reason=reason, message=message)


def told(due: tuple[Todo, ...]) -> list[tuple[str, str, str, tuple[str, ...], int]]:
    return [(each.severity, each.reason, each.check, each.nodes, each.pods) for each in due]


def test_what_nodes_have_in_common_is_one_thing_to_do() -> None:
    members = [
        member("a", Place.REFUSED, Reason.NODE_AFFINITY_NOT_MET),
        member("b", Place.REFUSED, Reason.NODE_AFFINITY_NOT_MET),
        member("c", Place.SKIPPED, Reason.ALREADY_AT_TARGET),
        member("d", Place.REFUSED, Reason.NODE_NOT_FOUND, "there is no node d"),
    ]
    skipped = Finding(reason=Reason.ALREADY_AT_TARGET, detail="x", check="node_is_not_at_target")

    due = todo(members, {"a": (UNMET, replace(UNMET, subject="shop/web-1")), "b": (UNMET,), "c": (skipped,)}, {})

    assert told(due) == [
        ("refuse", "NodeAffinityNotMet", "placements_are_met", ("a", "b"), 3),
        ("refuse", "NodeNotFound", "", ("d",), 0),
        ("skip", "AlreadyAtTarget", "node_is_not_at_target", ("c",), 0),
    ]
    assert due[0].owners == (PodOwner(name="StatefulSet shop/web", pods=3),)
    assert (due[1].example, due[1].remedy) == ("there is no node d", Reason.NODE_NOT_FOUND.remedy)


def test_what_operator_and_node_have_both_seen_counts_once_and_what_is_accepted_comes_first() -> None:
    members = [member("a", Place.PENDING), member("b", Place.PENDING)]

    due = todo(members, {"a": (ACCEPTED,), "b": (ACCEPTED,)}, {"a": (FROM_TOMORROW, REPORTED), "b": (FROM_TOMORROW,)})

    assert told(due) == [
        ("warn", "NodeAffinityNotMet", "placements_are_met", ("a", "b"), 8),
        ("warn", "NotInventedYet", "", ("a", "b"), 0),
    ]
    assert due[0].accepted
    assert due[0].owners == (PodOwner(name="StatefulSet shop/web", pods=6), PodOwner(name="bare pod shop/x", pods=1))


def test_of_a_node_that_may_be_upgraded_only_warnings_are_told() -> None:
    assert told(todo([member("a", Place.FINISHED)], {"a": (UNMET,)}, {"a": (replace(REPORTED, warning=False),)})) == []
