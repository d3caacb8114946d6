"""Bars and durations say what is true, in the space that they have."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.cli.words import bar, lasting, spaced

numbers = st.integers(0, 6000)


@given(numbers, numbers, numbers, numbers, st.integers(4, 40))
def test_bars_fill_their_width_and_hide_nothing(done: int, busy: int, bad: int, left: int, width: int) -> None:
    drawn = bar(done, busy, bad, done + busy + bad + left, width).plain
    assert len(drawn) == width
    total = done + busy + bad + left
    for number, letter in ((done, "█"), (bad, "▚"), (busy, "▒"), (left or not total, "·")):
        assert (letter in drawn) is (number > 0)
        assert abs(drawn.count(letter) - width * number / (total or 1)) <= 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m59s"), (3600, "1h"), (3661, "1h1m"), (90061, "1d1h")],
)
def test_durations_are_told_in_two_units(seconds: float, text: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == text


def test_words_are_spaced() -> None:
    assert (spaced("AwaitingApproval"), spaced("Running"), spaced("")) == ("awaiting approval", "running", "")
