"""Tables of rows that are played by hand: what is recorded of a row, and how it is printed."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A row that was run, as text."""

    row: str  # its name
    cells: tuple[str, ...]  # of its line; the last one says what was seen
    seconds: float
    complaints: tuple[str, ...] = ()  # what is not as it must be

    def __str__(self) -> str:
        """Render a line of the table."""
        *cells, said = self.cells
        wrong = (f"**{complaint}**" for complaint in self.complaints)
        return f"| {' | '.join((*cells, '; '.join(filter(None, (said, *wrong)))))} |"


def table(heading: str, results: Iterable[Result]) -> str:
    """Return the table."""
    return "\n".join((heading, *map(str, results)))


def record(file: Path, result: Result) -> None:
    """Append a result to a file, as a line of JSON."""
    with file.open("a") as stream:
        stream.write(json.dumps(asdict(result)) + "\n")


def recorded(file: Path, names: Iterable[str]) -> list[Result]:
    """Return the last result of each of these rows in a file, in this order."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    last = {line["row"]: line for line in lines}
    return [
        Result(**{**found, "cells": tuple(found["cells"]), "complaints": tuple(found["complaints"])})
        for name in names
        if (found := last.get(name)) is not None
    ]
