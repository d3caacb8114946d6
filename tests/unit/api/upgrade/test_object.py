import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.json import Json, MalformedObjectError, to_json
from nodeupgrade.api.upgrade.object import parse_spec, parse_upgrade, problems
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.cli.inputs.lint import lint
from tests.builders.specs import FULL, INVALID, MINIMAL, MISUNDERSTOOD, OTHER
from tests.builders.variations import places, replaced
from tests.scenario.rollout.harness import upgrade_object

GOLDEN = Path(__file__).parents[3] / "golden" / "crds" / "problems.txt"
PLACES = [path for path, _, _ in places(SPEC, FULL)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def test_problems_are_told_in_words() -> None:
    """What people read when they got something wrong: where, what, and what to write instead."""
    wrong = {**INVALID, **MISUNDERSTOOD}
    told = "".join(f"# {what}\n" + "".join(f"{line}\n" for line in problems(spec)) for what, spec in wrong.items())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(told)
    assert told == GOLDEN.read_text()


def test_all_problems_are_found_at_once() -> None:
    wrong = {**FULL, "action": "Stop", "timeouts": {"node": "long"}, "waves": [{"name": "B", "size": "0%"}]}
    assert [problem.path for problem in problems(wrong)] == [
        "spec.waves[0].name",
        "spec.waves[0].size",
        "spec.timeouts.node",
        "spec.action",
    ]


def test_all_that_fits_is_taken() -> None:
    """The last value inside a bound is right, the first beyond it is not."""
    waves = [{"name": f"{'w' * 60}{i:03}", "size": "1%", "maxConcurrent": 100} for i in range(20)]
    windows = [{"start": "0 22 * * *", "duration": "999999h"}] * 16
    names = [f"node-{i}" for i in range(500)]
    full = {**MINIMAL, "waves": waves, "windows": windows, "nodes": {"names": names}}
    assert problems(full) == ()
    beyond = {"waves": [*waves, {"name": "last", "size": 1}], "windows": windows * 2, "nodes": {"names": [*names, "n"]}}
    found = {problem.path for problem in problems({**full, **beyond})}
    assert found == {"spec.waves", "spec.windows", "spec.nodes.names"}


@pytest.mark.parametrize("spec", [None, 1, [], "text", {}])
def test_what_is_no_spec_is_said_to_be_none(spec: Any) -> None:
    with pytest.raises(MalformedObjectError, match="spec"):
        parse_spec(spec)


@pytest.mark.parametrize("spec", [FULL, OTHER | {"approvedWaves": []}], ids=["full", "other"])
def test_nothing_is_lost_in_reading(spec: Json) -> None:
    read = parse_spec(spec)
    again = {**to_json(read), "verify": spec["verify"]}
    assert parse_spec(again) == read


@pytest.mark.parametrize("field", [field.name for field in fields(UpgradeSpec)])
def test_every_field_is_read(field: str) -> None:
    assert getattr(parse_spec(FULL), field) != getattr(parse_spec(OTHER), field)


@pytest.mark.parametrize("value", [{}, {"selector": None}])
def test_defaults_also_fill_what_is_there_in_part(value: Json) -> None:
    spec = parse_spec({**MINIMAL, "nodes": {"all": True, "exclude": value}})
    assert spec.nodes.exclude.names == ()
    assert spec == parse_spec({**MINIMAL, "nodes": {"all": True}})


@settings(max_examples=75, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_no_nonsense_is_too_odd_to_be_told(place: tuple[str | int, ...], nonsense: Any) -> None:
    """Whatever is found where: it is read, or a problem inside the spec; nothing else is ever raised."""
    spec = replaced(FULL, place, [nonsense] if nonsense is None else nonsense)
    found = [problem for problem in problems(spec) if not problem.warning]
    if found:
        with pytest.raises(MalformedObjectError) as raised:
            parse_spec(spec)
        assert (raised.value.path, raised.value.problem) == (found[0].path, found[0].message)
        assert raised.value.path.startswith("spec")
    else:
        parse_spec(spec)
    lint({**upgrade_object("odd"), "spec": spec})
    lint({**upgrade_object("odd"), "spec": FULL}, {"spec": spec})


def stored(spec: Json) -> Json:
    body = upgrade_object("to-1-33")
    return {**body, "spec": spec, "metadata": {"name": "to-1-33", "uid": "u", "resourceVersion": "1"}}


def test_an_invalid_spec_is_kept_as_a_problem() -> None:
    upgrade = parse_upgrade(stored({**MINIMAL, "version": "1.33"}))
    assert (upgrade.spec, upgrade.spec_digest) == (None, "")
    assert upgrade.problem == "spec.version: '1.33' is invalid; write a version such as v1.33.13"


def test_an_approval_of_no_wave_stops_nothing() -> None:
    upgrade = parse_upgrade(stored({**MINIMAL, "approvedWaves": ["canary"]}))
    assert upgrade.spec is not None
    assert upgrade.spec.approved_waves == ("canary",)
