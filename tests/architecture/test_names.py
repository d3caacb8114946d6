"""A class's name means one thing: whoever reads it need not look where it was imported from."""

import ast
from collections import defaultdict

from tests.architecture.test_the_house import SOURCE_ROOT, modules


def test_no_class_has_the_name_of_another() -> None:
    places = defaultdict(list)
    for path in modules():
        if path.is_relative_to(SOURCE_ROOT):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(path.relative_to(SOURCE_ROOT).as_posix())

    assert {name: where for name, where in places.items() if len(where) > 1} == {}
