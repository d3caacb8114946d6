"""Declared dependencies are exactly the imported ones: nothing unused, and nothing that only happens to be there."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, tracked
from tests.builders.checkout import CHECKOUT

FILES = CHECKOUT / "tests/golden/cli/files"
PINNED = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
DATA = {"tzdata"}
"""Distributions without a module to import: the standard library's zoneinfo reads tzdata where a system has none."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    return {*command_line(), *of_the_operator()}


def command_line() -> set[str]:
    return names(project()["dependencies"])


def of_the_operator() -> set[str]:
    return names(project()["optional-dependencies"]["operator"])


def project() -> dict[str, Any]:
    return dict(tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def names(requirements: list[str]) -> set[str]:
    return {normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements}


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


ALL_COMMANDS = "from nodeupgrade.cli.main import COMMANDS; [each.load() for of in COMMANDS.values() for each in of]"
CONNECTED = "from nodeupgrade.cluster.connect import connect; connect(None, None, 1.0)"


def test_the_command_line_needs_nothing_of_the_extra() -> None:
    """All commands are loaded, used without a cluster, and connected to one, where the extra is not installed."""
    owned = {
        name for name, owners in packages_distributions().items() if {*map(normalized, owners)} & of_the_operator()
    }
    used = (
        "main(['lint', 'fine.yaml'], standalone_mode=False)",
        *(
            f"main(['{command}', '--pods', 'mixed.yaml', {versions}], standalone_mode=False)"
            for command, versions in (
                ("explain", "'--from', '1.30', '--to', '1.31'"),
                ("hash", "'--kubelet-version', '1.31'"),
            )
        ),
    )
    lines = (f"import sys; sys.modules.update(dict.fromkeys({sorted(owned)!r}))", ALL_COMMANDS, CONNECTED,
             "from nodeupgrade.cli.main import main", *used)  # fmt: skip
    argv = [sys.executable, "-c", "\n".join(lines)]

    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, cwd=FILES, env=os.environ)

    assert {"kubernetes", "aiohttp", "grpc", "kopf"} <= owned
    assert done.returncode == 0, done.stderr


def test_the_lock_of_the_command_line_is_a_part_of_the_other() -> None:
    """What the plugin of kubectl holds was resolved for the image."""
    locked = [
        set(PINNED.findall((CHECKOUT / name).read_text("utf-8")))
        for name in ("requirements-cli.lock", "requirements.lock")
    ]

    assert locked[0] < locked[1]
    assert command_line() <= {normalized(name) for name, _ in locked[0]}
    assert of_the_operator() & {normalized(name) for name, _ in locked[0]} == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import aiohttp.web, os", ["aiohttp", "os"]),
        ("from google.protobuf import message", ["google"]),
        ("from . import values", []),
        ("def late() -> None:\n    import rich", ["rich"]),
    ],
)
def test_imports_are_found(source: str, found: list[str]) -> None:
    assert list(imported_by(source)) == found
