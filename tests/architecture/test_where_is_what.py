"""docs/where-is-what.md says the truth: the module is there, has the name, and is found by the word."""

import ast
import re

import pytest

from tests.architecture.test_the_house import CHECKOUT, SOURCE_ROOT

PAGE = CHECKOUT / "docs" / "where-is-what.md"
ROWS = re.findall(r"^\| (.*\*\*.*) \| `(\S+)` \| `(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def stem(word: str) -> str:
    """Of a word in whatever number and form: what its path has of it at least."""
    return re.sub(r"(es|s|ing)$", "", word.lower())


def defined(source: str) -> set[str]:
    """Return the names that a module defines."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case _:
                pass
    return names


def test_the_page_has_rows() -> None:
    assert len(ROWS) == PAGE.read_text(encoding="utf-8").count("| `") - PAGE.read_text(encoding="utf-8").count("` | `")
    assert len(ROWS) >= 18


@pytest.mark.parametrize(("what", "module", "name"), ROWS, ids=[row[2] for row in ROWS])
def test_it_is_there_and_found_by_its_word(what: str, module: str, name: str) -> None:
    (word,) = re.findall(r"\*\*(\w+)\*\*", what)

    assert name in defined((SOURCE_ROOT / "nodeupgrade" / module).read_text(encoding="utf-8"))
    assert stem(word) in module
