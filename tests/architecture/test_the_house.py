"""tests.architecture.test_the_house: TODO"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.checkout import CHECKOUT
from tools import generate_protobuf, run_tests

SOURCE_ROOT = CHECKOUT / "operator"
LARGEST_FILE_BYTES = 1_000_000


def tracked(*patterns: str) -> list[Path]:
    """Files of the project: tracked ones, and new ones that are not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    found = [CHECKOUT / name for name in listing.stdout.split("\0") if name]
    return [path for path in found if path.is_file()]


def modules() -> Iterator[Path]:
    return (path for path in tracked("*.py") if "_pb" not in path.parts)


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(CHECKOUT)) for path in paths]


def test_the_source_root_does_not_shadow_the_standard_library() -> None:
    assert not (SOURCE_ROOT / "__init__.py").exists()
    code = "import operator; print(operator.itemgetter(0)('x'), operator.__file__)"
    seen = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{SOURCE_ROOT}:{CHECKOUT}"},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert seen.stdout.startswith("x "), seen.stderr
    assert str(CHECKOUT / "operator") not in seen.stdout


def test_real_software_is_asked_for_only_where_the_tests_on_it_are_looked_for() -> None:
    """As tools/run_tests.py looks for them: in two places, so that not every test has to be collected a second time."""
    marked = [path for path in tracked("tests/*.py") if re.search(r"mark\.(real|e2e)\b", path.read_text())]
    assert {"tests/contract", "e2e"} <= {*run_tests.CONTRACTS, *run_tests.NODES}
    assert [path for path in marked if CHECKOUT / "tests/contract" not in path.parents] == []


def test_what_a_package_of_tests_shares_ends_with_it() -> None:
    """Where there is no ``__init__.py``, pytest keeps a fixture of a package's scope until the session ends."""
    sharing = [path for path in tracked("tests/*.py", "e2e/*.py") if 'scope="package"' in path.read_text()]
    sharing.remove(Path(__file__))
    assert sharing
    assert named([path for path in sharing if not (path.parent / "__init__.py").exists()]) == []


def test_the_core_uses_paths_as_values_only() -> None:
    pure = {"PurePath", "PurePosixPath"}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (core,) = (each["source_modules"] for each in contracts if each["name"].endswith("do no I/O"))
    places = [SOURCE_ROOT.joinpath(*name.split(".")) for name in core]
    paths = [path for path in modules() if {path.with_suffix(""), *path.parents} & {*places}]

    assert len(paths) > len(core)
    assert named([path for path in paths if not from_pathlib(path) <= pure]) == []


def test_yaml_is_read_by_one_reader_with_bounds() -> None:
    """PyYAML's own loaders recurse as deep, and multiply aliases as often, as whoever wrote the text likes."""
    loads = re.compile(r"\byaml\.(safe_|full_|unsafe_)?load(_all)?\b")
    package = [path for path in modules() if path.is_relative_to(SOURCE_ROOT)]

    assert named([path for path in package if loads.search(path.read_text(encoding="utf-8"))]) == []


def from_pathlib(path: Path) -> set[str]:
    """Names that a module imports from pathlib; `pathlib` itself if it imports the whole."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module="pathlib", names=names):
                found |= {name.name for name in names}
            case ast.Import(names=names):
                found |= {name.name for name in names if name.name == "pathlib"}
            case _:
                pass
    return found


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import pathlib", {"pathlib"}),
        ("from pathlib import Path, PurePath", {"Path", "PurePath"}),
        ("import os", set()),
    ],
)
def test_imports_from_pathlib_are_found(tmp_path: Path, source: str, names: set[str]) -> None:
    (tmp_path / "module.py").write_text(source)

    assert from_pathlib(tmp_path / "module.py") == names


def test_generated_modules_match_their_protobuf_sources() -> None:
    assert sorted(generate_protobuf.SOURCES) == sorted(tracked("*.proto"))
    assert [name for source in generate_protobuf.SOURCES for name in generate_protobuf.outdated(source)] == []


def test_nothing_names_a_place_on_someones_machine() -> None:
    # Container-Optimized OS keeps its kubelet below one of them, on every node.
    private = re.compile(
        "|".join(("/" + "home/(?!kubernetes/)[a-z]", "/" + "Users/[A-Za-z]", "/" + "work/", "/" + r"root/\."))
    )
    texts = [path for path in tracked() if path.suffix in {".md", ".py", ".toml", ".yaml", ".sh", ""}]

    assert named([path for path in texts if private.search(path.read_text(encoding="utf-8"))]) == []


def test_no_binary_is_committed() -> None:
    files = tracked()
    programs = [path for path in files if path.read_bytes()[:4] in {b"\x7fELF", b"!<ar"}]

    assert named(programs) == []
    assert named([path for path in files if path.stat().st_size > LARGEST_FILE_BYTES]) == []


def test_every_end_to_end_test_is_marked_as_one() -> None:
    """An unmarked one would be run by no command."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "not e2e", "e2e"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "::" not in collected.stdout
    assert "error" not in collected.stdout.lower()
