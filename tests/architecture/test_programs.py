"""Programs that are started by the path of their module, where nothing of this project can be imported."""

import ast
import re

from tests.architecture.test_the_house import SOURCE_ROOT

PACKAGE = SOURCE_ROOT / "nodeupgrade"
BY_PATH = re.compile(r"\b(\w+)\.__file__|with_name\(\"(\w+)\.py\"\)")


def imported(source: str) -> set[str]:
    """The top-level packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.partition(".")[0])
            case _:
                pass
    return found


def test_a_program_that_is_started_by_its_path_imports_nothing_of_ours() -> None:
    started = {
        path.with_name(f"{one or other}.py")
        for path in PACKAGE.rglob("*.py")
        for one, other in BY_PATH.findall(path.read_text(encoding="utf-8"))
        if (one or other) != "nodeupgrade"
    }

    assert {path.name for path in started} == {"isolation.py", "judge.py"}
    assert {path.name for path in started if "nodeupgrade" in imported(path.read_text(encoding="utf-8"))} == set()


def test_no_module_starts_itself() -> None:
    own = re.compile(r"(?<![\w.])__file__")
    found = [
        path for path in PACKAGE.rglob("*.py") if "sys.executable" in (text := path.read_text()) and own.search(text)
    ]

    assert [path.name for path in found if not re.search(r"Path\(__file__\)\.with_name", path.read_text())] == []
