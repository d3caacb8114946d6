"""Standard output: coloured on a terminal, plain and wide elsewhere."""

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console, RenderableType

F = TypeVar("F", bound=Callable[..., Any])

WIDTH_WITHOUT_TERMINAL = 200


def console() -> Console:
    """Return a console on standard output. Rich itself detects NO_COLOR, a terminal and its width."""
    screen = Console(highlight=False, markup=False, emoji=False)
    if screen.is_terminal or "COLUMNS" in os.environ:
        return screen
    return Console(highlight=False, markup=False, emoji=False, width=WIDTH_WITHOUT_TERMINAL)


def show(*parts: RenderableType) -> None:
    """Print for people."""
    screen = console()
    for part in parts:
        screen.print(part)


def dump(document: object, output: str) -> None:
    """Print for programs, as ``json`` or ``yaml``."""
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def output_option() -> Callable[[F], F]:
    """Add the option ``--output``."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="For people, or for programs.",
    )
