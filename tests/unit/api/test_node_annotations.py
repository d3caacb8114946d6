"""A word about a node counts however it is written, unless it is a plain no."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.limits import ANNOTATION_REASON_LENGTH
from nodeupgrade.api.node_annotations import HOLD_ANNOTATION, SKIP_ANNOTATION, annotation_reason


@pytest.mark.parametrize("value", ["false", "False", " false "])
def test_no_means_no(value: str) -> None:
    assert annotation_reason({HOLD_ANNOTATION: value}, HOLD_ANNOTATION) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [("true", ""), ("", ""), ("yes", "yes"), ("flase", "flase"), ("INC-7,\n until Monday", "INC-7, until Monday")],
)
def test_everything_else_asks_and_may_say_why(value: str, why: str) -> None:
    assert annotation_reason({HOLD_ANNOTATION: value}, HOLD_ANNOTATION) == why
    assert annotation_reason({HOLD_ANNOTATION: value}, SKIP_ANNOTATION) is None


@given(st.text())
def test_what_is_repeated_is_short_and_can_be_printed(value: str) -> None:
    why = annotation_reason({SKIP_ANNOTATION: value}, SKIP_ANNOTATION)
    assert why is None or (why.isprintable() and len(why) <= ANNOTATION_REASON_LENGTH)
