"""Generate docs/generated/kubelet-history.md from the tables in the code, and the newest minor in pages that name it.

Run ``python -m tools.generate_history`` after changing one of the ``TABLES``, or after moving a module that relies on
them; ``--check`` only reports whether the pages are up to date.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.history import ServerChange
from nodeupgrade.kubelet.known_defects import ReleaseDefect
from nodeupgrade.kubelethash import NEWEST_MINOR, OLDEST_MINOR, MinorChange, changes
from tools.generated import CHECKOUT, Wanted, main

SOURCE = CHECKOUT / "operator" / "nodeupgrade"
PAGE = CHECKOUT / "docs" / "generated" / "kubelet-history.md"
TABLES: tuple[ModuleType, ...] = (changes, history, known_defects)
TABLE_NAMES = frozenset(table.__name__.rpartition(".")[2] for table in TABLES)

NEWEST = {
    CHECKOUT / "README.md": (r"(?<=hashes are known for 1\.5 to )1\.\d+",),
    CHECKOUT / "docs" / "hash-eras.md": (
        r"(?<=\| D \| 1\.31 to )1\.\d+",
        r"(?<=kubelets older than 1\.5 or newer than )1\.\d+",
    ),
}
"""Pages that name the newest minor with known hashes, and where."""

HEAD = f"""# What changed between kubelets

Generated from `kubelet/history.py`, `kubelet/known_defects.py` and
`kubelethash/changes.py`; to change it: `make history`. Every difference between
releases that nodeupgrade depends on is listed here once, with the place where upstream says so and the modules that
rely on it. Hashes are known for 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}; how they are computed is in
[hash-eras.md](../hash-eras.md).
"""

Fact: TypeAlias = MinorChange | ReleaseDefect


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact and its name in the code."""

    name: str
    fact: Fact
    used_by: tuple[str, ...]


def rows() -> tuple[Row, ...]:
    """Return every fact once, in the order of the tables; a fact may be in both."""
    used = uses()
    names: dict[int, tuple[Fact, str]] = {}
    for table in TABLES:
        for name, value in vars(table).items():
            for fact in value.values() if isinstance(value, Mapping) and name.isupper() else (value,):
                if isinstance(fact, MinorChange | ReleaseDefect):
                    names.setdefault(id(fact), (fact, name))
    return tuple(Row(name=name, fact=fact, used_by=tuple(sorted(used.get(name, ())))) for fact, name in names.values())


def uses() -> dict[str, set[str]]:
    """Return the modules that use each fact, by the fact's name, without the tables themselves."""
    found: dict[str, set[str]] = {}
    tables = {Path(str(table.__file__)).resolve() for table in TABLES}
    for path in sorted(SOURCE.rglob("*.py")):
        if path in tables:
            continue
        for name in _named(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, set()).add(path.relative_to(SOURCE).as_posix())
    return found


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=table), attr=name) if table in TABLE_NAMES:
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.rpartition(".")[2] in TABLE_NAMES:
                yield from (alias.name for alias in names)
            case _:
                pass


def page() -> str:
    """Return the page's text."""
    every = rows()
    by_minor = sorted((row for row in every if type(row.fact) is MinorChange), key=_first)
    servers = sorted((row for row in every if isinstance(row.fact, ServerChange)), key=_first)
    defects = [row for row in every if isinstance(row.fact, ReleaseDefect)]
    sections = (("Kubelets, by minor", by_minor), ("Releases with a defect", defects), ("API servers", servers))
    return "\n".join((HEAD, *("\n".join(_section(title, listed)) for title, listed in sections)))


def _first(row: Row) -> int:
    return row.fact.first if isinstance(row.fact, MinorChange) else 0


def _section(title: str, listed: list[Row]) -> Iterator[str]:
    yield from (f"## {title}", "", "| releases | what holds | upstream | relied on by |", "|---|---|---|---|")
    for row in listed:
        by = ", ".join(f"`{path}`" for path in row.used_by)
        yield f"| {releases(row.fact)} | {row.fact.what} | [{row.fact.reference}]({row.fact.link}) | {by} |"
    yield ""


def releases(fact: Fact) -> str:
    """Return the releases that a fact applies to, in words."""
    if isinstance(fact, MinorChange):
        return f"{fact.since} on" if fact.last is None else f"{fact.since} to 1.{fact.last}"
    return ", ".join(
        f"1.{first[0]}.{first[1]} on" if last is None else f"1.{first[0]}.{first[1]} to 1.{last[0]}.{last[1]}"
        for first, last in fact.releases
    )


def wanted() -> Wanted:
    """Return the expected text of every page that is generated, wholly or in part."""
    pages = {PAGE: page()}
    for path, places in NEWEST.items():
        text = path.read_text(encoding="utf-8")
        for place in places:
            text, count = re.subn(place, f"1.{NEWEST_MINOR}", text)
            if count != 1:
                raise ValueError(f"{path.name} has {count} places like {place}")
        pages[path] = text
    return pages


if __name__ == "__main__":
    main("tools.generate_history", __doc__, wanted)
