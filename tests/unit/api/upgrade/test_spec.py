"""Tests the schema of a NodeUpgrade's spec."""

from nodeupgrade.api.upgrade.spec import SPEC


def test_what_people_leave_out_is_filled_in() -> None:
    optional = [name for name in SPEC.properties if name not in SPEC.required]
    assert {name for name in optional if SPEC.properties[name].default is None} == set()
