"""Tests the picture: nothing that failed is hidden, and it has the same bounds for any fleet."""

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from xml.etree.ElementTree import Element

from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.cli.pages.picture import NAMED_NODES, picture
from nodeupgrade.cli.reports.rollout import rollout_report
from tests.builders.finished_rollouts import BEGAN, finished_rollout, finished_task, finished_tasks


def drawn(number: int, *, at_once: int, failed: tuple[int, ...]) -> Element:
    every = finished_tasks(number, at_once=at_once, failed=failed)
    made = picture(rollout_report(finished_rollout(every), every, BEGAN + timedelta(days=1)))
    assert made is not None
    return made


def bars(made: Element, style: str) -> list[Element]:
    return [each for each in made.iter("rect") if each.get("class") == style]


def percent(text: str | None) -> float:
    return float((text or "").removesuffix("%"))


def test_a_few_nodes_have_a_row_and_their_name_each() -> None:
    made = drawn(NAMED_NODES, at_once=4, failed=(7,))

    names = [each.text for each in made.iter("text")]
    assert [name for name in names if name and "node-" in name] == [
        f"{'✗' if number == 7 else '✔'} node-{number:05}" for number in range(NAMED_NODES)
    ]
    assert (len(bars(made, "good")), len(bars(made, "bad")), len(bars(made, "faint"))) == (NAMED_NODES - 1, 1, 1)


def test_many_nodes_have_a_row_for_each_slot_and_every_failure_is_seen() -> None:
    failed = (3, 1000, 1001, 2999)
    made = drawn(3000, at_once=30, failed=failed)

    assert len({each.get("y") for each in bars(made, "good")}) == 30
    assert len(bars(made, "bad")) == len(failed)
    assert float(made.get("height") or 0) < 250


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(-5000, 100_000), st.booleans()),
        min_size=NAMED_NODES + 1,
        max_size=NAMED_NODES + SLOTS + 40,
    )
)
def test_whatever_clocks_nodes_have_bars_stay_apart_and_inside(runs: list[tuple[int, bool]]) -> None:
    tasks = [
        finished_task(f"node-{number}", BEGAN + timedelta(seconds=second), failed=bad)
        for number, (second, bad) in enumerate(runs)
    ]
    made = picture(rollout_report(finished_rollout(tasks), tasks, BEGAN + timedelta(days=1)))

    assert made is not None
    rows = defaultdict[str, list[tuple[float, float]]](list)
    for each in made.iter("rect"):
        begin = percent(each.get("x"))
        rows[each.get("y") or ""].append((begin, begin + percent(each.get("width"))))
    assert len(rows) <= SLOTS + 1
    for row in rows.values():
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(row))
        assert all(begin >= 0 for begin, _ in row)
    assert bool(bars(made, "bad")) == any(bad for _, bad in runs)


def test_nothing_is_drawn_before_a_node_was_started() -> None:
    tasks = finished_tasks(1, at_once=1)
    upgrade = finished_rollout(tasks)
    object.__setattr__(upgrade.status, "started_at", None)

    assert picture(rollout_report(upgrade, tasks, BEGAN)) is None
