"""docs/security.md: each row names a test, and each of these tests is there."""

import ast
import re

from tests.builders.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "security.md").read_text(encoding="utf-8")
CELLS = ([cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| "))
THREATS = [cells for cells in CELLS if len(cells) == 4 and cells[0] != "who"]
INFLUENCES = PAGE.partition("## What others can influence on a node")[2].partition("\n## ")[0]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_row_of_the_threat_model_names_a_test() -> None:
    assert len(THREATS) >= 15
    assert [row[2] for row in THREATS if not TEST.search(row[3])] == []


def test_each_row_of_what_others_can_influence_names_a_test() -> None:
    rows = [line for line in INFLUENCES.split("\n") if line.startswith("| ") and "what others write" not in line]
    assert len(rows) >= 10
    assert [row for row in rows if not TEST.search(row)] == []


def test_each_of_these_tests_is_there() -> None:
    missing = []
    for path, name in TEST.findall(PAGE):
        file = CHECKOUT / path
        tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module(body=[], type_ignores=[])
        names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        missing += [] if name in names else [f"{path}::{name}"]
    assert missing == []
