"""Small plots as SVG, the same bytes for the same numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

WIDTH = 720
TOP = 64
ROW = 20
FONT = "font-family='system-ui, sans-serif' font-size='12'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours for a page."""

    text: str
    grid: str
    series: tuple[str, ...]


LIGHT = Theme(text="#1f2328", grid="#d1d9e0", series=("#1a7f37", "#bf6a02", "#0969da", "#cf222e"))
DARK = Theme(text="#e6edf3", grid="#3d444d", series=("#3fb950", "#e09b13", "#4493f8", "#f85149"))
THEMES: Mapping[str, Theme] = {"": LIGHT, "-dark": DARK}
"""By what is added to a plot's name."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measurement: its median, the range around it, and the floor beneath it if that is known."""

    x: float
    median: float
    least: float
    most: float
    floor: float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of parts that are drawn one after the other."""

    label: str
    parts: Mapping[str, float]


def points(title: str, series: Mapping[str, Sequence[Point]], theme: Theme, *, note: str) -> str:
    """Plot medians and their ranges over x, a line for each series; floors are dashed."""
    left, right, height = 40, 20, 330
    every = [point for of in series.values() for point in of]
    most_x, most_y = 20 * ceil(max(point.x for point in every) / 20), ceil(max(point.most for point in every))
    bottom = height - 46

    def x(value: float) -> float:
        return left + (WIDTH - left - right) * value / most_x

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * value / most_y

    drawn = [*_heading(title, series, theme)]
    for tick in range(most_y + 1):
        drawn += [_line([(left, y(tick)), (WIDTH - right, y(tick))], theme.grid)]
        drawn += [_text(left - 8, y(tick) + 4, str(tick), theme, "end")]
    for pods in range(0, most_x + 1, 20):
        drawn.append(_text(x(pods), bottom + 18, str(pods), theme, "middle"))
    drawn.append(_text(WIDTH - right, height - 4, note, theme, "end"))
    for number, (colour, of) in enumerate(zip(theme.series, series.values(), strict=False)):
        drawn.append(_line([(x(point.x), y(point.median)) for point in of], colour, width=2))
        floors = [(x(point.x), y(point.floor)) for point in of if point.floor is not None]
        drawn.append(_line(floors, colour, dashes="4 4"))
        for point in of:
            beside = x(point.x) + 3 * (number - 1)  # so that ranges of several series do not hide one another
            drawn.append(_line([(beside, y(point.least)), (beside, y(point.most))], colour, width=2))
            drawn.append(f"<circle cx='{x(point.x):.1f}' cy='{y(point.median):.1f}' r='4' fill='{colour}'/>")
    return _picture(title, height, drawn)


def bars(
    title: str,
    names: Sequence[str],
    drawn: Sequence[Bar],
    theme: Theme,
    *,
    most: float | None = None,
    goal: float | None = None,
) -> str:
    """Plot a bar for each row, its parts in the order and the colour of their names, with the numbers."""
    colours = dict(zip(names, theme.series, strict=False))
    left, right = 16 + 6.6 * max(len(bar.label) for bar in drawn), 110
    scale = (WIDTH - left - right) / (most or max(sum(bar.parts.values()) for bar in drawn))
    lines = [*_heading(title, names if len(names) > 1 else (), theme)]
    for number, bar in enumerate(drawn):
        x, y = left, TOP + ROW * number
        lines.append(_text(left - 8, y + 13, bar.label, theme, "end"))
        for name in names:
            if width := bar.parts.get(name, 0) * scale:
                lines.append(
                    f"<rect x='{x:.1f}' y='{y + 2}' width='{width:.1f}' height='{ROW - 5}' fill='{colours[name]}'/>"
                )
                x += width
        numbers = " + ".join(f"{bar.parts[name]:g}" for name in names if name in bar.parts)
        lines.append(_text(x + 6, y + 13, numbers, theme))
    bottom = TOP + ROW * len(drawn)
    if goal is not None:
        at = left + goal * scale
        lines.append(_line([(at, TOP - 6), (at, bottom)], theme.text, dashes="3 3"))
        lines.append(_text(at, TOP - 12, f"goal {goal:g}", theme, "middle"))
    return _picture(title, bottom + 10, lines)


def _heading(title: str, names: Iterable[str], theme: Theme) -> Iterator[str]:
    yield f"<text x='12' y='22' {FONT} font-weight='bold' fill='{theme.text}'>{escape(title)}</text>"
    x = 12.0
    for colour, name in zip(theme.series, names, strict=False):
        yield f"<rect x='{x:.1f}' y='34' width='12' height='12' fill='{colour}'/>"
        yield _text(x + 17, 44, name, theme)
        x += 40 + 6.8 * len(name)


def _text(x: float, y: float, text: str, theme: Theme, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {FONT} fill='{theme.text}' text-anchor='{anchor}'>{escape(text)}</text>"


def _line(along: Sequence[tuple[float, float]], colour: str, *, width: int = 1, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in along)
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'{dashed}/>"


def _picture(title: str, height: int, drawn: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img'>"
    return "\n".join((head, f"<title>{escape(title)}</title>", *drawn, "</svg>\n"))
