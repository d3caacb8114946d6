"""Tests the catalogue of checks."""

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.check_catalogue import ALL_CHECKS, read_upgrade
from tests.builders.specs import MINIMAL
from tests.scenario.rollout.harness import upgrade_object


def test_every_check_says_what_holds_and_why_it_may_not() -> None:
    for one in ALL_CHECKS:
        assert one.holds.endswith("."), one.name
        assert one.reasons, one.name


def test_no_two_checks_have_one_name_in_a_room() -> None:
    names = [(one.room, one.name) for one in ALL_CHECKS]

    assert len(names) == len(set(names))


def test_checks_of_one_name_are_accepted_together_or_not_at_all() -> None:
    acceptable: dict[str, set[bool]] = {}
    for one in ALL_CHECKS:
        acceptable.setdefault(one.name, set()).add(one.acceptable)

    assert {name: both for name, both in acceptable.items() if len(both) > 1} == {}


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
