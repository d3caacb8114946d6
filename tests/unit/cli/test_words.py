"""Bars and durations say what is true, in the space that they have."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nodeupgrade.cli.screens.words import bar, lasting, spaced, table

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


ROW = {"NAME": "kubelet-1-33-13", "VERSION": "v1.33.13", "PHASE": "WaitingForWindow", "AGE": "28d1h", "REASON": "Waits"}


def drawn(width: int) -> list[list[str]]:
    sheet = table(*ROW, spare=("AGE", "VERSION"))
    sheet.add_row(*ROW.values())
    screen = Console(width=width, force_terminal=False)
    with screen.capture() as captured:
        screen.print(sheet)
    return [line.split() for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(58, ()), (57, ("AGE",)), (51, ("AGE",)), (50, ("AGE", "VERSION")), (41, ("AGE", "VERSION"))],
)
def test_a_narrow_screen_leaves_whole_columns_out(width: int, left_out: tuple[str, ...]) -> None:
    kept = [heading for heading in ROW if heading not in left_out]
    assert drawn(width) == [kept, [ROW[heading] for heading in kept]]


def test_what_is_cut_all_the_same_says_so() -> None:
    assert any(cell.endswith("…") for cell in drawn(30)[1])
