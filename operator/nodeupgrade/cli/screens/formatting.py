"""Format moments, durations, numbers and bars, and draw tables."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import ManifestUid, PodOwner
from nodeupgrade.api.upgrade.status import Condition, ConditionType
from nodeupgrade.cli.console import Text

BAR_WIDTH = 20
SHORT_BAR = 10
NOTHING = "-"

GOOD, BAD, BUSY, FAINT = "green", "red", "yellow", "dim"

_WORDS = {
    GOOD: "Succeeded Planned Completed Done Prechecked",
    BAD: "Failed Aborted Stalled RollbackFailed RolledBack Refused Undone RollingBack Undoing",
    BUSY: (
        "Running Soaking AwaitingApproval WaitingForWindow Paused Planning Queued Admitted Staging "
        "Prechecking Staged Verifying Doing"
    ),
}
STYLES = {word: style for style, words in _WORDS.items() for word in words.split()}
"""Colours of phases, states and results."""

_WITH_EDIT = "remove it with the next edit, or the edit has no effect"
UIDS = {
    ManifestUid.ADDED: f"metadata.uid is added; {_WITH_EDIT}",
    ManifestUid.KEPT: f"metadata.uid from an earlier run is kept; {_WITH_EDIT}",
    ManifestUid.REMOVED: "metadata.uid from an earlier run is removed",
}
"""What a run does about the UID in the manifest of a static pod."""

MARKS = {GOOD: "✔", BAD: "✗", BUSY: "◐", "": "·"}
"""What precedes a state of each colour, for screens without colours."""


def lasting(length: timedelta) -> str:
    """Format a duration by its two largest units."""
    seconds = max(0, int(length.total_seconds()))
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        number, seconds = divmod(seconds, size)
        parts.append((number, unit))
    first = next((at for at, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return "".join(f"{number}{unit}" for number, unit in parts[first : first + 2] if number) or "0s"


def since(moment: datetime | None, now: datetime) -> str:
    """Format how long ago a moment was."""
    return NOTHING if moment is None else lasting(now - moment)


def to_the_second(moment: datetime) -> str:
    """Format a time, to the second."""
    return timestamp(moment.replace(microsecond=0))


def ahead(moment: datetime, now: datetime) -> str:
    """Format a future moment, and how far away it is."""
    return f"{to_the_second(moment)} (in {lasting(moment - now)})" if moment > now else f"{to_the_second(moment)} (now)"


def spaced(word: str) -> str:
    """Split a CamelCase word into words: ``AwaitingApproval`` becomes ``awaiting approval``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in word).strip()


def bar(done: int, busy: int, bad: int, total: int, width: int = BAR_WIDTH) -> Text:
    """Draw progress: done, failed, in progress, and pending; whatever is not zero gets at least one cell."""
    left = max(total - done - busy - bad, 0 if total else 1)
    parts = [(done, "█", GOOD), (bad, "▚", BAD), (busy, "▒", BUSY), (left, "·", FAINT)]
    whole = done + busy + bad + left
    cells = [max(1, width * number // whole) if number else 0 for number, _, _ in parts]
    # Rounding errors go to the longest part, where they show least.
    cells[cells.index(max(cells))] += width - sum(cells)
    drawn = Text()
    for length, (_, letter, style) in zip(cells, parts, strict=True):
        drawn.append(letter * length, style)
    return drawn


def coloured(word: str) -> Text:
    """Return a phase, a state or a result in its colour."""
    return Text(word or NOTHING, STYLES.get(word, ""))


def mark(word: str) -> Text:
    """Return the mark that precedes a phase, a state or a result, in its colour."""
    style = STYLES.get(word, "")
    return Text(MARKS[style], style)


def facts(*pairs: tuple[str, str | Text]) -> Table:
    """Draw names and values, one pair on each line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return grid


def heading(title: str) -> Group:
    """Return the title of a section, after an empty line."""
    return Group(Text(), Text(title, "bold underline"))


class Said:
    """What a screen has said already, so that each message stands there once."""

    def __init__(self, *messages: str) -> None:
        self._said = [each.removesuffix(".") for each in messages]

    def once(self, message: str) -> str:
        """Return a message, or ``as above`` if it, or one that begins with it, was there already."""
        bare = message.removesuffix(".")
        if bare and any(each == bare or each.startswith(f"{bare}.") for each in self._said):
            return "as above"
        self._said.append(bare)
        return message


class Columns:
    """A table in kubectl's style: no content is truncated, and no name is split.

    Only the last column wraps, between words. ``spare`` are columns to leave out, in this order, where the screen is
    too narrow for all. Where even those that must stay are too wide, each row takes several lines: what it is about,
    the other columns, and the last one.
    """

    GAP = 2
    LAST = 24
    """The least width in cells of the last column, which may wrap."""

    def __init__(self, *headings: str, spare: Sequence[str] = ()) -> None:
        self._headings = headings
        self._spare = tuple(spare)
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; missing cells are empty."""
        texts = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        missing = len(self._headings) - len(texts)
        self._rows.append((*texts, *(Text() for _ in range(missing))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as the screen allows."""
        kept = self._kept(options.max_width)
        if self._width(kept) > options.max_width:
            yield from self._over_several_lines(kept)
            return
        drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, self.GAP, 0, 0))
        for index in kept:
            drawn.add_column(self._headings[index], overflow="fold", no_wrap=index < len(self._headings) - 1)
        for row in self._rows:
            drawn.add_row(*(row[index] for index in kept))
        yield drawn

    def _over_several_lines(self, kept: Sequence[int]) -> RenderResult:
        first, *others, last = kept
        yield Text((" " * self.GAP).join(self._headings[index] for index in kept), "bold")
        for row in self._rows:
            yield row[first]
            between = Text()
            for index in others:
                between.append(row[index]).append(" " * (self._needs(index) - row[index].cell_len + self.GAP))
            between.rstrip()
            yield from (Padding(text, (0, 0, 0, self.GAP)) for text in (between, row[last]) if text)

    def _kept(self, width: int) -> list[int]:
        """Return the indexes of the columns that fit."""
        kept = list(range(len(self._headings)))
        for heading in self._spare:
            if self._width(kept) <= width:
                break
            kept.remove(self._headings.index(heading))
        return kept

    def _width(self, kept: Sequence[int]) -> int:
        return sum(self._needs(index) + self.GAP for index in kept) - self.GAP

    def _needs(self, index: int) -> int:
        longest = max((line.cell_len for row in self._rows for line in row[index].split()), default=0)
        needed = max(longest, len(self._headings[index]))
        if index < len(self._headings) - 1:
            return needed
        word = max((cell_len(word) for row in self._rows for word in row[index].plain.split()), default=0)
        return max(min(needed, self.LAST), word)


_WRONG_IF = {
    ConditionType.ACCEPTED: "False",
    ConditionType.STALLED: "True",
    ConditionType.SUCCEEDED: "False",
    ConditionType.DEGRADED: "True",
    ConditionType.IMPEDED: "True",
    ConditionType.ZERO_RESTART: "False",
}


def is_bad(condition: Condition) -> bool:
    """Report whether a condition says that something is wrong."""
    wrong = any(condition.type == kind and condition.status == status for kind, status in _WRONG_IF.items())
    return wrong and condition.reason != Reason.STATIC_PODS_RECREATED


def about(pods: int, owners: Sequence[PodOwner], check: str, *, accepted: bool) -> Iterator[str]:
    """Yield a line for the pods and one for the check, as far as they are known."""
    if owners:
        named = sum(owner.pods for owner in owners)
        more = f" and {pods - named} more" if pods > named else ""
        whose = (f"{owner.pods} of {owner.name}" if owner.pods > 1 else owner.name for owner in owners)
        yield f"pods: {', '.join(whose)}{more}"
    if check:
        yield f"{'accepted in spite of' if accepted else 'found by'} {check}"
