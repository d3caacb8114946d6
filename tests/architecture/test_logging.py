"""Logs have one form: structlog's events, written as JSON lines by the one function that sets logging up."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from nodeupgrade.fleet.actions import NodeAction
from tests.architecture.test_the_house import SOURCE_ROOT, modules
from tests.builders.checkout import CHECKOUT

SETS_UP = SOURCE_ROOT / "nodeupgrade" / "logs.py"
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


def events(source: str) -> Iterator[str]:
    """What is logged: the first argument of every call of a logger."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=logger, attr=level), args=[first, *_]) if ast.unparse(logger).split(
                "."
            )[-1] in {"log", "_log"} and level in {"debug", "info", "warning", "error", "exception", "critical"}:
                yield str(first.value) if isinstance(first, ast.Constant) else ast.unparse(first)
            case _:
                pass


def test_log_events_have_fixed_names_that_can_be_searched_for() -> None:
    named = re.compile(r"[a-z]+(_[a-z]+)+")
    found = {event for path in modules() if path.is_relative_to(SOURCE_ROOT) for event in events(path.read_text())}

    assert len(found) > 50
    assert {event for event in found if not named.fullmatch(event)} == set()
    actions = [each.log_event for each in get_args(NodeAction)]
    assert [name for name in actions if not named.fullmatch(name)] == []
    assert len(set(actions)) == len(actions) > 30
