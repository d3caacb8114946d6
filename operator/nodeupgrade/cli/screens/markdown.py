"""Markdown in which texts from others are only text."""

import re
from collections.abc import Iterable, Iterator

from nodeupgrade.api.printable import printable

_MARKS = re.compile(r"([\\`*_\[\]<>|#~&])")


def escaped(text: str) -> str:
    """Return a text on one line of which nothing is markup."""
    return _MARKS.sub(r"\\\1", printable(text))


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    named = tuple(headings)
    yield f"| {' | '.join(named)} |"
    yield f"|{'---|' * len(named)}"
    for row in rows:
        yield f"| {' | '.join(map(escaped, row))} |"
