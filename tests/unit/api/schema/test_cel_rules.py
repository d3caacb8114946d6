"""Rules in CEL, evaluated by the library as an API server evaluates them."""

import pytest

from nodeupgrade.api.schema.cel_rules import holds
from nodeupgrade.api.schema.derive import schema_of
from nodeupgrade.api.upgrade.windows import Blackout

BLACKOUT = schema_of(Blackout)
LATER = "self.to > self.from"


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        ("2026-12-24T00:00:00Z", "2026-12-24T00:30:00Z", True),
        ("2026-12-24T00:00:00Z", "2026-12-24T00:30:00+01:00", False),
        ("2026-12-24T00:30:00+01:00", "2026-12-24T00:00:00Z", True),
    ],
)
def test_times_are_compared_as_times_whatever_their_offset(begin: str, end: str, expected: bool) -> None:
    assert holds(LATER, BLACKOUT, {"from": begin, "to": end}) is expected


@pytest.mark.parametrize("rule", ["self.missing > self.to", "self.to", "duration('nonsense') > duration('0s')"])
def test_a_rule_that_cannot_be_evaluated_to_a_truth_value_is_not_met(rule: str) -> None:
    assert not holds(rule, BLACKOUT, {"from": "2026-12-24T00:00:00Z", "to": "2026-12-25T00:00:00Z"})
