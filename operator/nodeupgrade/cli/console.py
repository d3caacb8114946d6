"""Standard output and standard error: coloured on a terminal, plain and wide elsewhere.

Everything that a command prints goes through here, and so through ``printable``.
"""

import os
from collections.abc import Iterable
from typing import Any

import click
import rich.text
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from nodeupgrade.api.printable import printable

WIDTH_WITHOUT_TERMINAL = 200


class Text(rich.text.Text):
    """Styled text, made safe before it is measured, so that tables stay in order."""

    def __init__(self, text: str = "", *args: Any, **kwargs: Any) -> None:
        super().__init__(printable(text), *args, **kwargs)

    def append(self, text: "rich.text.Text | str", *args: Any, **kwargs: Any) -> "Text":
        """Add text at the end."""
        super().append(printable(text) if isinstance(text, str) else text, *args, **kwargs)
        return self

    @classmethod
    def assemble(cls, *parts: Any, **kwargs: Any) -> "Text":
        """Combine texts and strings, and strings with a style."""
        text = cls(**kwargs)
        for part in parts:
            text.append(*(part if isinstance(part, tuple) else (part,)))
        return text


def stacked(lines: Iterable[str]) -> Text:
    """Return a text of several lines."""
    text = Text()
    for number, line in enumerate(lines):
        text.append(rich.text.Text("\n") if number else "").append(line)
    return text


class Screen(Console):
    """A console on which nothing is drawn that is not printable, whatever is asked of it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **kwargs)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Draw; segments of rich's own, which move the cursor, stay as they are."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text, keep="\n"), style)


def console(*, err: bool = False) -> Screen:
    """Return a console. Rich itself detects NO_COLOR, a terminal and its width."""
    screen = Screen(stderr=err)
    if screen.is_terminal or "COLUMNS" in os.environ:
        return screen
    return Screen(stderr=err, width=WIDTH_WITHOUT_TERMINAL)


def show(*parts: RenderableType) -> None:
    """Print for people."""
    screen = console()
    for part in parts:
        screen.print(part)


def say(line: str, *, err: bool = False) -> None:
    """Print one line for people."""
    click.echo(printable(line), err=err)


def write(text: str) -> None:
    """Print a text of several lines that was laid out by us."""
    click.echo(printable(text, keep="\n\t"), nl=False)
