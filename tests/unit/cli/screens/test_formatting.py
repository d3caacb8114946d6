"""Tests the formatting of bars, durations, columns, and conditions."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from nodeupgrade.api.upgrade.status import Condition, ConditionStatus
from nodeupgrade.cli.screens.formatting import Columns, Said, bar, is_bad, lasting, spaced

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
    sheet = Columns(*ROW, spare=("AGE", "VERSION"))
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


cells = st.text("abcdefg-é界 ", min_size=1, max_size=30).map(lambda text: " ".join(text.split()) or "x")


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=4), st.integers(24, 120))
def test_nothing_that_is_shown_is_cut(rows: list[tuple[str, str, str]], width: int) -> None:
    sheet = Columns("ONE", "TWO", "THREE", spare=("TWO",))
    for row in rows:
        sheet.add_row(*row)
    screen = Console(width=width, force_terminal=False)
    with screen.capture() as captured:
        screen.print(sheet)
    printed = captured.get()
    assert max(map(cell_len, printed.splitlines())) <= width
    shown = [0, 2] if "TWO" not in printed.splitlines()[0] else [0, 1, 2]
    written = Counter("".join(row[index] for row in rows for index in shown).replace(" ", ""))
    assert written <= Counter(printed)


def test_replaced_static_pods_are_no_alarm() -> None:
    told = Condition(
        type="ZeroRestart",
        status=ConditionStatus.FALSE,
        reason="StaticPodsRecreated",
        message="1 container of static pods replaced",
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )

    assert not is_bad(told)
    assert is_bad(replace(told, reason="RestartsDetected"))


def test_a_message_is_shown_once_and_what_only_resembles_it_is_another() -> None:
    said = Said("it broke. 2 pods flapped.")

    assert [
        said.once(each) for each in ("it broke", "it broke.", "it brok", "it broke; retry", "it broke; retry.", "")
    ] == [
        *("as above", "as above", "it brok", "it broke; retry", "as above", ""),
    ]
