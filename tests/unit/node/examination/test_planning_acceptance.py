"""Tests that findings of accepted checks become recorded warnings, and that nothing else is accepted."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PreflightSettings
from nodeupgrade.check_catalogue import ALL_CHECKS
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.examination.planning import Examination, examine
from nodeupgrade.node.examination.preview import preview
from nodeupgrade.node.task_status.task_status import prechecked_status, refusal_status
from tests.builders.sound import facts, pod, request

SPINNING = (parse_pod(pod(nodeSelector={"disk": "spinning"})),)


def accepting(*names: str, **fields: Any) -> NodeFacts:
    known = facts(**fields)
    return replace(known, spec=replace(known.spec, preflight=PreflightSettings(accept=names)))


def examined(found: NodeFacts) -> Examination:
    return examine(request(), found, read_layout(()), {})


def test_what_is_accepted_warns_from_the_plan_on() -> None:
    examination = examined(accepting("placements_are_met", pods=SPINNING))
    plan, forecast = examination.plan, preview(examination)

    assert plan is not None
    assert forecast is not None
    [caution] = plan.cautions
    assert (caution.check, caution.accepted, caution.subject) == ("placements_are_met", True, "default/web")
    [hazard] = prechecked_status("run", plan, forecast).hazards
    assert (hazard.reason, hazard.check) == (Reason.NODE_AFFINITY_NOT_MET, "placements_are_met")
    assert (hazard.warning, hazard.accepted, hazard.pod, hazard.pods) == (True, True, "default/web", 1)
    assert [(owner.name, owner.pods) for owner in hazard.owners] == [("bare pod default/web", 1)]
    assert forecast.would_restart == 1


@pytest.mark.parametrize("names", [(), ("pods_fit",), ("NodeAffinityNotMet",)])
def test_nothing_else_is_accepted_with_it(names: tuple[str, ...]) -> None:
    examination = examined(accepting(*names, pods=SPINNING))

    assert [finding.check for finding in examination.refusals] == ["placements_are_met"]
    assert not refusal_status("run", examination.refusals).hazards[0].accepted


def test_what_a_run_depends_on_is_not_accepted_whatever_the_task_says() -> None:
    names = tuple(check.name for check in ALL_CHECKS)

    examination = examined(accepting(*names, pods=SPINNING, state_free_bytes=0))

    assert [finding.check for finding in examination.refusals] == ["there_is_space"]
    assert [finding.check for finding in examination.accepted] == ["placements_are_met"]


def test_a_node_in_order_has_nothing_on_record() -> None:
    plan = examined(accepting("placements_are_met", "pods_fit")).plan

    assert plan is not None
    assert plan.cautions == ()
