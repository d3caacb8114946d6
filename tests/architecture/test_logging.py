"""Logs have one form: structlog's events, written as JSON lines by the one function that sets logging up."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_the_house import CHECKOUT, SOURCE_ROOT, modules

SETS_UP = SOURCE_ROOT / "nodeupgrade" / "adapters" / "logs.py"
OWN_FORM = {
    "structlog.configure", "logging.basicConfig", "logging.StreamHandler", "logging.Formatter",
    "logging.debug", "logging.info", "logging.warning", "logging.error", "logging.exception", "logging.critical",
}  # fmt: skip


def own_forms(source: str) -> Iterator[str]:
    """Calls that would write logs in a form of their own."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if f"{module}.{name}" in OWN_FORM:
                yield f"{module}.{name}"
            case ast.ImportFrom(module="logging" | "structlog" as module, names=names):
                yield from (f"{module}.{alias.name}" for alias in names if f"{module}.{alias.name}" in OWN_FORM)
            case _:
                pass


def test_logging_is_set_up_in_one_place() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {call}"
        for path in modules()
        if path.is_relative_to(SOURCE_ROOT) and path != SETS_UP
        for call in own_forms(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_it_is_set_up_there() -> None:
    assert "structlog.configure" in own_forms(Path(SETS_UP).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("logging.basicConfig()", ["logging.basicConfig"]),
        ("from logging import warning", ["logging.warning"]),
        ("log = structlog.get_logger()", []),
        ("logging.getLogger('kopf.objects').setLevel(logging.WARNING)", []),
    ],
)
def test_a_form_of_its_own_is_found(source: str, found: list[str]) -> None:
    assert list(own_forms(source)) == found
