"""Unit tests lie at the path of their module and share nothing but builders."""

import re
from pathlib import Path

from tests.builders.checkout import CHECKOUT

UNIT = CHECKOUT / "tests" / "unit"
SOURCES = {"e2e": CHECKOUT, "tools": CHECKOUT}
"""Where the modules of a folder lie, other than in the package."""


def subjects(test: Path) -> list[Path]:
    """Modules that a test may be about: the longest name that exists; what follows it is an aspect."""
    relative = test.relative_to(UNIT)
    folder = SOURCES.get(relative.parts[0], CHECKOUT / "operator" / "nodeupgrade") / relative.parent
    words = test.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return [path for name in names for path in (folder / f"{name}.py", folder / name) if path.exists()]


def test_every_unit_test_lies_at_the_path_of_its_module() -> None:
    tests = [*UNIT.rglob("test_*.py")]

    assert len(tests) > 200
    assert [str(test.relative_to(CHECKOUT)) for test in tests if not subjects(test)] == []


def test_a_unit_test_imports_no_other_test_and_nothing_of_the_lab() -> None:
    borrowed = re.compile(r"^(?:from|import) (?:tests\.unit|tests\.\S*\btest_|e2e)\b", re.MULTILINE)
    own = (UNIT / "e2e", UNIT / "tools")  # the lab and the tools are their subject
    tests = [path for path in UNIT.rglob("*.py") if not {*own} & {*path.parents}]

    assert [str(path.relative_to(CHECKOUT)) for path in tests if borrowed.search(path.read_text("utf-8"))] == []
