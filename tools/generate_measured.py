"""Generate docs/measured/README.md and its plots from the data beside it.

Run ``python -m tools.generate_measured`` after adding a measurement; ``--check`` only reports whether the page is up to
date. A file of data is JSON lines: first an object with the title, the command and how it was measured, then the rows.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.generated import CHECKOUT, Wanted, main
from tools.measured_tables import TABLES, Row, Rows, Table
from tools.plots import THEMES

FOLDER = CHECKOUT / "docs" / "measured"
PAGE = FOLDER / "README.md"

HEAD = """# Measurements

Generated from the data in this folder; to change it: `make measured`. Every table is a file of JSON lines, linked below
its title: the first line says how it was measured, each other line is a row. Long tables are shortened here. All nodes
are those of the [lab](../lab.md).
"""


def read(path: Path) -> tuple[Row, Rows]:
    """Return the first object of a file, and its rows."""
    first, *rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return first, rows


def wanted() -> Wanted:
    """Return page and plots as they should be.

    Raises:
        ValueError: a file of data is missing, or is on no page.
    """
    if (found := {path.stem for path in FOLDER.glob("*.jsonl")}) != (known := {table.name for table in TABLES}):
        raise ValueError(f"data without a table, or a table without data: {', '.join(sorted(found ^ known))}")
    parts, files = [HEAD], dict[Path, str]()
    for table in TABLES:
        about, rows = read(FOLDER / f"{table.name}.jsonl")
        parts.append("\n".join(_section(table, about, rows)))
        if table.plot is not None:
            files |= {FOLDER / f"{table.name}{dark}.svg": table.plot(rows, theme) for dark, theme in THEMES.items()}
    return {PAGE: "\n".join(parts), **files}


def _section(table: Table, about: Row, rows: Rows) -> Iterator[str]:
    yield from (f"## {about['title']}", "")
    measured = f"{about['measured']}. " if "measured" in about else ""
    command = f"`{about['command']}`" if "command" in about else "by hand"
    yield from (f"[{len(rows)} rows]({table.name}.jsonl), {command}. {measured}{about['how']}", "")
    if table.plot is not None:
        yield from (
            "<picture>",
            f'  <source media="(prefers-color-scheme: dark)" srcset="{table.name}-dark.svg">',
            f'  <img alt="Plot: {table.described}" src="{table.name}.svg">',
            "</picture>",
            "",
        )
    headings, *lines = table.shown(rows)
    yield from (_line(headings), "|---" * len(headings) + "|", *map(_line, lines))
    yield ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def there() -> list[Path]:
    """Return everything in the folder that is generated."""
    return [*FOLDER.glob("*.md"), *FOLDER.glob("*.svg")]


if __name__ == "__main__":
    main("tools.generate_measured", __doc__, wanted, there)
