"""What documents and docstrings call by its place is there: files, folders and modules move, and words stay behind."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, modules, tracked
from tests.builders.checkout import CHECKOUT

PACKAGE = SOURCE_ROOT / "nodeupgrade"
QUOTED = re.compile(r"``([^`\n]+)``|`([^`\n]+)`")
FILE = re.compile(r"[\w.-]+(/[\w.-]+)*\.(py|md|toml|proto)")
FOLDER = re.compile(r"\w+(/[\w-]+)*/|\w+(/[\w-]+)+")
DOTTED = re.compile(r"[a-z_]\w*(\.\w+)+")
UNREAD = (CHECKOUT / "CHANGELOG.md", CHECKOUT / "docs" / "measured" / "README.md")
"""What was keeps the names of its day."""
FIELDS = {"agent", "api", "kubelet"}
"""Packages named like fields of the API, or like packages of Kubernetes: `kubelet.unit` is not a module."""


@cache
def files() -> frozenset[PurePosixPath]:
    return frozenset(PurePosixPath(path.relative_to(CHECKOUT).as_posix()) for path in tracked())


@cache
def ends() -> frozenset[tuple[str, ...]]:
    """Every file and every folder, by all that its path ends with."""
    places = {place for file in files() for place in (file, *file.parents)}
    return frozenset(place.parts[i:] for place in places for i in range(len(place.parts)))


@cache
def roots() -> frozenset[str]:
    """The folders that a path may begin with: those of the checkout and those of the package."""
    return frozenset(file.parts[0] for file in files() if len(file.parts) > 1) | packages()


@cache
def packages() -> frozenset[str]:
    return frozenset({"nodeupgrade", *(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())})


def is_there(quoted: str) -> bool:
    """Whether what is quoted is there; what is no place of ours always is."""
    if FILE.fullmatch(quoted):
        return tuple(quoted.split("/")) in ends()
    if FOLDER.fullmatch(quoted) and quoted.split("/", maxsplit=1)[0] in roots():
        return tuple(quoted.strip("/").split("/")) in ends()
    if DOTTED.fullmatch(quoted) and quoted.split(".", maxsplit=1)[0] in packages() - FIELDS:
        return is_module(quoted.removeprefix("nodeupgrade.").split("."))
    return True


def is_module(words: list[str]) -> bool:
    """Whether words name a package, a module, or something in one."""
    for i in range(len(words), 0, -1):
        place = PACKAGE.joinpath(*words[:i])
        for module in (place / "__init__.py", place.with_suffix(".py")):
            if module.is_file():
                return i == len(words) or bool(re.search(rf"\b{words[i]}\b", module.read_text(encoding="utf-8")))
    return False


def quotations(text: str) -> Iterator[str]:
    for double, single in QUOTED.findall(text):
        yield (double or single).strip()


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def test_documents_cite_what_is_there() -> None:
    pages = [path for path in tracked("*.md") if path not in UNREAD]
    gone = [
        f"{page.relative_to(CHECKOUT)}: {quoted}"
        for page in pages
        for quoted in quotations(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))
        if not is_there(quoted)
    ]

    assert gone == []


def test_docstrings_cite_what_is_there() -> None:
    gone = [
        f"{path.relative_to(CHECKOUT)}: {quoted}"
        for path in modules()
        for text in docstrings(path.read_text(encoding="utf-8"))
        for quoted in quotations(text)
        if not is_there(quoted)
    ]

    assert gone == []


@pytest.mark.parametrize(
    ("quoted", "there"),
    [
        ("kubelet/history.py", True),
        ("history.py", True),
        ("docs/hash-eras.md", True),
        ("tests/architecture", True),
        ("nodeupgrade.kubelethash", True),
        ("kubelethash.changes.MinorChange", True),
        ("kubelet/chronicle.py", False),
        ("elet/history.py", False),
        ("tests/tower/", False),
        ("nodeupgrade.kubelet.chronicle", False),
        ("kubelethash.changes.Nothing", False),
        ("pkg/kubelet/container/helpers.go", True),
        ("spec.artifact", True),
    ],
)
def test_what_is_there_and_what_is_not(quoted: str, *, there: bool) -> None:
    assert is_there(quoted) is there
