"""Small things in words: moments, durations, numbers, bars."""

from __future__ import annotations

from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from nodeupgrade.domain.wire import timestamp

BAR_WIDTH = 20
NOTHING = "-"

GOOD, BAD, BUSY, FAINT = "green", "red", "yellow", "dim"

STYLES = {
    "Succeeded": GOOD,
    "Planned": GOOD,
    "Completed": GOOD,
    "Failed": BAD,
    "Aborted": BAD,
    "Stalled": BAD,
    "RollbackFailed": BAD,
    "RolledBack": BAD,
    "Refused": BAD,
    "Running": BUSY,
    "Soaking": BUSY,
    "AwaitingApproval": BUSY,
    "Paused": BUSY,
}


def lasting(length: timedelta) -> str:
    """Write a duration as a person would: its two largest units."""
    seconds = max(0, int(length.total_seconds()))
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        number, seconds = divmod(seconds, size)
        parts.append((number, unit))
    first = next((at for at, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return "".join(f"{number}{unit}" for number, unit in parts[first : first + 2] if number) or "0s"


def since(moment: datetime | None, now: datetime) -> str:
    """Write how long ago something was."""
    return NOTHING if moment is None else lasting(now - moment)


def ahead(moment: datetime, now: datetime) -> str:
    """Write a moment to come, and how far away it is."""
    return f"{timestamp(moment)} (in {lasting(moment - now)})" if moment > now else f"{timestamp(moment)} (now)"


def spaced(word: str) -> str:
    """Write a CamelCase word as words: ``AwaitingApproval`` as ``awaiting approval``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in word).strip()


def bar(done: int, busy: int, bad: int, total: int, width: int = BAR_WIDTH) -> Text:
    """Draw how far something is: done, gone wrong, in work, and to come; what is not nothing gets at least a cell."""
    left = max(total - done - busy - bad, 0 if total else 1)
    parts = [(done, "█", GOOD), (bad, "▚", BAD), (busy, "▒", BUSY), (left, "·", FAINT)]
    whole = done + busy + bad + left
    cells = [max(1, width * number // whole) if number else 0 for number, _, _ in parts]
    # What rounding left over, or took too much of, goes to the longest, where it is seen least.
    cells[cells.index(max(cells))] += width - sum(cells)
    drawn = Text()
    for length, (_, letter, style) in zip(cells, parts, strict=True):
        drawn.append(letter * length, style)
    return drawn


def coloured(word: str) -> Text:
    """Write a phase, a state or a result in its colour."""
    return Text(word or NOTHING, STYLES.get(word, ""))


def table(*columns: str) -> Table:
    """Begin a table as kubectl draws them; only the last column is long enough to go on in the next line."""
    begun = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        begun.add_column(column, overflow="fold", no_wrap=column is not columns[-1])
    return begun


def facts(*pairs: tuple[str, str | Text]) -> Table:
    """Write names and values below one another."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return grid


def heading(title: str) -> Text:
    """Write the title of a section, an empty line before it."""
    return Text(f"\n{title}", "bold underline")
