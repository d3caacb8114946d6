"""Declared dependencies are exactly the imported ones: nothing unused, and nothing that only happens to be there."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, tracked
from tests.builders.checkout import CHECKOUT

DATA = {"tzdata"}
"""Distributions without a module to import: the standard library's zoneinfo reads tzdata where a system has none."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in project["dependencies"]}


def imported_by(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass


def foreign(paths: list[Path]) -> set[str]:
    """Modules that are neither ours nor the standard library's."""
    found = {name for path in paths for name in imported_by(path.read_text(encoding="utf-8"))}
    return found - sys.stdlib_module_names - {"nodeupgrade"}


def test_declared_dependencies_are_exactly_the_imported_ones() -> None:
    owners = packages_distributions()
    modules = foreign([path for path in tracked("*.py") if path.is_relative_to(SOURCE_ROOT)])

    assert {name for name in modules if not {normalized(owner) for owner in owners[name]} & declared()} == set()
    provided = {normalized(owner) for name in modules for owner in owners[name]}
    assert declared() - DATA - provided == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import aiohttp.web, os", ["aiohttp", "os"]),
        ("from google.protobuf import message", ["google"]),
        ("from . import values", []),
        ("def late() -> None:\n    import rich", ["rich"]),
    ],
)
def test_imports_are_found(source: str, names: list[str]) -> None:
    assert list(imported_by(source)) == names
