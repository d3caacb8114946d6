"""A rollout as a tree."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType

from nodeupgrade.api.upgrade.status import Counts, WaveStatus
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.reports.tree import Branch
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BAR_WIDTH,
    BUSY,
    FAINT,
    GOOD,
    MARKS,
    NOTHING,
    SHORT_BAR,
    Columns,
    bar,
    coloured,
    lasting,
    mark,
)


def progress(counts: Counts | WaveStatus, width: int = BAR_WIDTH) -> Text:
    """Draw the progress of a rollout or a wave as a bar with numbers."""
    done = counts.succeeded + counts.skipped
    failed = counts.failed if isinstance(counts, WaveStatus) else counts.all_failed
    drawn = bar(done, counts.in_progress, failed + counts.refused, counts.total, width)
    return Text.assemble(drawn, f" {done}/{counts.total}")


_FORK, _LAST, _LINE, _GAP = "├─ ", "└─ ", "│  ", "   "


def draw_tree(branches: Iterable[Branch]) -> RenderableType:
    """Draw the waves with their nodes and steps, and what the marks and bars mean."""
    drawn = Columns("WAVE, NODE, STEP", "STATE", "NODES", "TOOK", "ABOUT", spare=("NODES", "TOOK"))
    for guide, branch in _lines(tuple(branches), ""):
        drawn.add_row(
            Text.assemble((guide, FAINT), mark(branch.state), f" {branch.name}"),
            coloured(branch.state),
            Text() if branch.wave is None else progress(branch.wave, SHORT_BAR),
            NOTHING if branch.took is None else lasting(branch.took),
            branch.about,
        )
    return Group(drawn, _legend())


def _legend() -> Text:
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
