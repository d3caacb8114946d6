"""The picture of a rollout over time, as SVG: its waves, and below them its nodes.

A small rollout has a row for each node. A larger one has as many rows as nodes were in flight at once, as slots; runs
of one result that follow each other in a slot closer than can be seen become one. So the picture of any fleet has at
most ``SLOTS`` rows. Positions are percentages, so that texts keep their size on every screen.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.cli.pages.elements import element
from nodeupgrade.cli.reports.rollout import NodeRecord, RolloutReport
from nodeupgrade.cli.screens.formatting import BAD, BUSY, FAINT, GOOD, MARKS, STYLES

NAMED_NODES = 40
"""The greatest number of nodes of which each has a row and its name."""

CLASSES = {GOOD: "good", BAD: "bad", BUSY: "busy", FAINT: "faint", "": "plain"}
"""Classes of the style sheet by colour."""

_ROW, _SLOT, _AXIS, _GAP = 18, 5, 20, 10
_COLUMNS = 1000
"""How many positions are told apart."""
_LONGEST_NAME = 24
_TICKS = 4
_TICK_SECONDS = (
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 91 * 24, 366 * 24)),
)


@dataclass(frozen=True, slots=True)
class _Span:
    """What the picture shows: from the first to the last moment."""

    begin: datetime
    end: datetime

    def at(self, moment: datetime) -> int:
        """Return the position of a moment; one of a clock that is wrong lies on the edge."""
        share = (moment - self.begin) / (self.end - self.begin)
        return round(min(1.0, max(0.0, share)) * _COLUMNS)


@dataclass(slots=True)
class _Bar:
    """A bar, from one position to another."""

    style: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Run:
    """The run of a node."""

    record: NodeRecord
    begin: datetime
    end: datetime

    @property
    def style(self) -> str:
        return STYLES.get(self.record.state, "")


def picture(report: RolloutReport) -> Element | None:
    """Draw it; None if no node was started."""
    status = report.seen.status
    if status.started_at is None:
        return None
    last = status.completed_at or report.now
    span = _Span(status.started_at, max(last, status.started_at + timedelta(seconds=1)))
    runs = sorted(_runs(report.nodes, last), key=lambda run: (run.begin, run.record.node))
    waves = [wave for wave in status.waves if wave.started_at is not None]
    top, drawn = _AXIS, list[Element]()
    for wave in waves:
        bar = _bar(span, FAINT, wave.started_at or span.begin, wave.completed_at or last)
        drawn += _row(bar, wave.name, top)
        top += _ROW
    top += _GAP
    if len(runs) <= NAMED_NODES:
        for run in runs:
            drawn += _row(_bar(span, run.style, run.begin, run.end), _name(run), top)
            top += _ROW
    else:
        slots = _slots(span, runs)
        for number, bars in enumerate(slots):
            drawn += (_rectangle(bar, top + number * _SLOT, _SLOT - 1) for bar in bars)
        top += len(slots) * _SLOT
    described = f"The course of {report.upgrade.name}: its waves and the runs of its nodes, over time"
    return element(
        "svg",
        *_grid(span, top),
        *drawn,
        role="img",
        aria_label=described,
        class_="picture",
        width="100%",
        height=top + 2,
    )


def _runs(records: Iterable[NodeRecord], now: datetime) -> Iterator[_Run]:
    for each in records:
        end = each.finished_at or (now if each.started_at is not None else None)
        if end is not None:
            yield _Run(each, each.started_at or end, end)


def _slots(span: _Span, runs: Sequence[_Run]) -> list[list[_Bar]]:
    """Give each run the first slot that is free; if none is, the one that is free next."""
    slots, free = list[list[_Bar]](), list[datetime]()
    for run in runs:
        at = next((slot for slot, since in enumerate(free) if since <= run.begin), None)
        if at is None and len(slots) < SLOTS:
            at = len(slots)
            slots.append([])
            free.append(run.end)
        elif at is None:
            at = min(range(len(free)), key=free.__getitem__)
        free[at] = max(free[at], run.end)
        _append(slots[at], _bar(span, run.style, run.begin, run.end, least=2))
    return slots


def _append(bars: list[_Bar], bar: _Bar) -> None:
    """Add a bar to a slot, and let none hide another."""
    before = bars[-1] if bars else None
    if before is not None and before.style == bar.style and bar.begin <= before.end + 1:
        before.end = max(before.end, bar.end)
        return
    if before is not None and bar.begin < before.end:
        bar.begin, bar.end = before.end, max(before.end + 1, bar.end)
    bars.append(bar)


def _bar(span: _Span, style: str, begin: datetime, end: datetime, least: int = 6) -> _Bar:
    first = span.at(begin)
    return _Bar(style, first, max(span.at(end), first + least))


def _row(bar: _Bar, name: str, top: int) -> Iterator[Element]:
    """Draw a bar, and the name beside it where there is more space."""
    yield _rectangle(bar, top + 3, _ROW - 6)
    before, after = bar.begin, _COLUMNS - bar.end
    if max(before, after) < _COLUMNS // 3:  # on the bar
        place = {"x": _percent(bar.begin), "dx": ".5em", "class_": "inside"}
    elif before > after:
        place = {"x": _percent(bar.begin), "dx": "-.5em", "text_anchor": "end"}
    else:
        place = {"x": _percent(bar.end), "dx": ".5em"}
    yield element("text", name, y=top + _ROW - 5, **place)


def _name(run: _Run) -> str:
    """Return the name of a node as far as there is space, and the mark of its result."""
    name, half = run.record.node, _LONGEST_NAME // 2
    if len(name) > _LONGEST_NAME:
        host = name.split(".", 1)[0]
        name = f"{host}…" if len(host) <= _LONGEST_NAME else f"{name[:half]}…{name[-half:]}"
    return f"{MARKS[run.style]} {name}"


def _rectangle(bar: _Bar, top: int, height: int) -> Element:
    width = _percent(bar.end - bar.begin)
    return element("rect", x=_percent(bar.begin), y=top, width=width, height=height, class_=CLASSES[bar.style])


def _grid(span: _Span, height: int) -> Iterator[Element]:
    """Draw moments as lines with their time; with the date where it is not always the same."""
    length = (span.end - span.begin).total_seconds()
    step = next((each for each in _TICK_SECONDS if length / each <= _TICKS), length / _TICKS)
    dated = span.begin.date() != span.end.date()
    clock = "%H:%M:%S" if step < 60 else "%m-%d %H:%M" if dated else "%H:%M"
    for number in range(_TICKS + 1):
        moment = datetime.fromtimestamp((span.begin.timestamp() // step + 1 + number) * step, span.begin.tzinfo)
        if moment > span.end:
            break
        at, place = _percent(span.at(moment)), "end" if span.at(moment) > _COLUMNS * 0.9 else "middle"
        yield element("line", x1=at, x2=at, y1=_AXIS - 4, y2=height, class_="grid")
        yield element("text", moment.strftime(clock), x=at, y=_AXIS - 8, text_anchor=place, class_="time")


def _percent(position: int) -> str:
    return f"{position * 100 / _COLUMNS:g}%"
