"""Tests that rows have unique names, and that every kind has a control."""

from e2e.machines.kinds import ROWS


def test_every_row_has_a_name_of_its_own_and_every_kind_a_control() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.kind.name for row in ROWS} == {row.kind.name for row in ROWS if row.name.endswith("/control")}
