"""Draw a rollout as a tree."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.console import Group, RenderableType

from nodeupgrade.cli.console import Text
from nodeupgrade.cli.reports.overview import Branch
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BUSY,
    FAINT,
    GOOD,
    MARKS,
    NOTHING,
    SHORT_BAR,
    bar,
    coloured,
    lasting,
    mark,
    since,
    table,
)

_FORK, _LAST, _LINE, _GAP = "├─ ", "└─ ", "│  ", "   "


def tree(branches: Iterable[Branch], now: datetime) -> RenderableType:
    """Draw the waves with their nodes and steps, and what the marks and bars mean."""
    drawn = table("WAVE, NODE, STEP", "STATE", "NODES", "TOOK", "ABOUT", spare=("NODES", "TOOK"))
    for guide, branch in _lines(tuple(branches), ""):
        drawn.add_row(
            Text.assemble((guide, FAINT), mark(branch.state), f" {branch.name}"),
            coloured(branch.state),
            _progress(branch),
            NOTHING if branch.took is None else lasting(branch.took),
            branch.about if branch.since is None else f"{branch.about}, {since(branch.since, now)} ago",
        )
    return Group(drawn, legend())


def legend() -> Text:
    """Return the meaning of marks and bars."""
    meanings = (("done", GOOD, "█"), ("in flight", BUSY, "▒"), ("failed or refused", BAD, "▚"), ("to come", "", ""))
    drawn = Text()
    for words, style, filling in meanings:
        drawn.append(f"{MARKS[style]} {filling}".strip(), style).append(f" {words}   ", FAINT)
    drawn.rstrip()
    return drawn


def _lines(branches: tuple[Branch, ...], before: str) -> Iterator[tuple[str, Branch]]:
    for number, branch in enumerate(branches, 1):
        last = number == len(branches)
        yield before + (_LAST if last else _FORK), branch
        yield from _lines(branch.branches, before + (_GAP if last else _LINE))


def _progress(branch: Branch) -> Text:
    wave = branch.wave
    if wave is None:
        return Text()
    done = wave.succeeded + wave.skipped
    drawn = bar(done, wave.in_progress, wave.failed + wave.refused, wave.total, SHORT_BAR)
    return Text.assemble(drawn, f" {done}/{wave.total}")
