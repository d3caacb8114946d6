"""Output for programs: JSON and YAML, exact, and escaped as these escape."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from nodeupgrade.api.json import to_json
from nodeupgrade.api.yaml import write_one
from nodeupgrade.cli.console import write

F = TypeVar("F", bound=Callable[..., Any])

_NOT_QUITE_TEXT = re.compile(r"[^\n -~]")
"""Candidates for an escape in a document; what JSON and YAML lay out themselves are spaces and line feeds."""


def dump(document: object, output: str) -> None:
    """Print whatever JSON can be made of for programs, as ``json`` or ``yaml``."""
    plain = to_json(document)
    write(f"{in_json(plain, indent=2)}\n" if output == "json" else in_yaml(plain))


def in_json(document: object, *, indent: int | None = None) -> str:
    """Return a document as JSON, with escapes for everything that is not printable."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _NOT_QUITE_TEXT.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def in_yaml(document: object) -> str:
    """Return a document as YAML; with escapes for everything but ASCII, if anything in it is not printable."""
    text = write_one(document)
    return text if text.replace("\n", "").isprintable() else write_one(document, ascii_only=True)


def output_option(help_text: str = "Output format.") -> Callable[[F], F]:
    """Add the option ``--output``."""
    return click.option(
        "--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help=help_text
    )
