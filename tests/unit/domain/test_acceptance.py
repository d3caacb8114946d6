"""Accepted checks: what they find is a warning, on record, and nothing else is let through."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PreflightSettings
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.check_catalogue import EVERY, read_upgrade
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.examination.planning import Examination, examine
from nodeupgrade.node.examination.preview import preview
from nodeupgrade.node.task_status.task_status import prechecked_status, refusal_status
from tests.scenario.rollout.harness import upgrade_object
from tests.unit.api.specs import MINIMAL
from tests.unit.domain.node.checks.sound import facts, pod, request

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
    names = tuple(check.name for check in EVERY)

    examination = examined(accepting(*names, pods=SPINNING, state_free_bytes=0))

    assert [finding.check for finding in examination.refusals] == ["there_is_space"]
    assert [finding.check for finding in examination.accepted] == ["placements_are_met"]


def test_a_node_in_order_has_nothing_on_record() -> None:
    plan = examined(accepting("placements_are_met", "pods_fit")).plan

    assert plan is not None
    assert plan.cautions == ()


def stored(*names: str) -> Upgrade:
    spec: Json = {**MINIMAL, "preflight": {"accept": list(names)}}
    body = upgrade_object("to-1-33")
    return read_upgrade({**body, "spec": spec, "metadata": {"name": "to-1-33", "uid": "u", "resourceVersion": "1"}})


def test_names_of_checks_are_accepted() -> None:
    upgrade = stored("placements_are_met", "pods_fit", "exec_probes_are_timed_already")

    assert upgrade.problem == ""
    assert upgrade.spec is not None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pod_fits", "there is no check pod_fits; did you mean pods_fit?"),
        ("xyz", "there is no check xyz; docs/generated/preflight.md lists all of them"),
        (
            "skew_is_supported",
            (
                "skew_is_supported cannot be accepted; instead, upgrade the control plane first, choose a nearer "
                "version, or set skewPolicy: Warn"
            ),
        ),
        (
            "program_is_as_promised",
            "program_is_as_promised cannot be accepted; docs/decisions/checks.md says why",
        ),
    ],
)
def test_a_name_that_cannot_be_accepted_makes_the_spec_invalid(name: str, problem: str) -> None:
    upgrade = stored("placements_are_met", name)

    assert (upgrade.spec, upgrade.spec_digest) == (None, "")
    assert upgrade.problem == f"spec.preflight.accept[1]: {problem}"
