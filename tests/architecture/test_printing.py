"""What others have written reaches terminals, events and notices through one function only: ``printable``."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, modules
from tests.builders.checkout import CHECKOUT

PACKAGE = SOURCE_ROOT / "nodeupgrade"
CONSOLE = PACKAGE / "cli" / "console.py"
"""The command line's only way to a terminal."""

EVENTS = PACKAGE / "cluster" / "typed_objects.py"
NOTICES = PACKAGE / "fleet" / "notices" / "formats.py"
CELL = PACKAGE / "node" / "running_kubelet" / "isolation.py"
"""Prints to the agent that started it, and not to people."""

CONDITIONS = PACKAGE / "fleet" / "decide" / "conditions.py"

_DRAWING = frozenset({"rich.text.Text", "rich.print", "rich.get_console"})
_PRINTING = frozenset({"echo", "secho", "echo_via_pager", "style", "prompt", "confirm"})


def printing(source: str) -> Iterator[str]:
    """Places where something may reach a terminal without having gone through ``printable``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="print"), args=args) if not _is_printable(args):
                yield "print"
            case ast.Call(func=ast.Name(id="Console")):
                yield "Console"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr=name), args=args) if (
                name in _PRINTING and not _is_printable(args)
            ):
                yield f"click.{name}"
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr="write"):
                yield "write"
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "rich":
                yield from (name for each in names if (name := f"{module}.{each.name}") in _DRAWING)
            case ast.ImportFrom(module="click", names=names):
                yield from (f"click.{each.name}" for each in names if each.name in _PRINTING)
            case _:
                pass


def _is_printable(args: list[ast.expr]) -> bool:
    """Whether the only argument is what ``printable`` has returned, JSON, which is ASCII, or written in the source."""
    match args:
        case [ast.Constant()]:
            return True
        case [ast.Call(func=ast.Name(id="printable"))]:
            return True
        case [ast.Call(func=ast.Attribute(value=ast.Name(id="json"), attr="dumps"), keywords=keywords)]:
            return "ensure_ascii" not in {keyword.arg for keyword in keywords}
        case _:
            return False


def test_everything_goes_through_one_function() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {call}"
        for path in modules()
        if path.is_relative_to(PACKAGE) and path != CELL
        for call in printing(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("path", [CONSOLE, EVENTS, NOTICES, CONDITIONS], ids=lambda path: path.name)
def test_terminal_events_notices_and_conditions_use_it(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert {"printable", "stored"} & {call.id for call in calls if isinstance(call, ast.Name)}


def test_events_are_written_in_one_place() -> None:
    """Nowhere else is an Event created."""
    creating = [
        path.relative_to(PACKAGE)
        for path in modules()
        if path.is_relative_to(PACKAGE) and "create(EVENTS" in path.read_text(encoding="utf-8")
    ]
    assert creating == [EVENTS.relative_to(PACKAGE)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(x)", ["print"]),
        ("print(printable(x), file=sys.stderr)", []),
        ("print(printable(x), y)", ["print"]),
        ("print(json.dumps(x))", []),
        ("print(json.dumps(x, ensure_ascii=False))", ["print"]),
        ("click.echo(x)", ["click.echo"]),
        ("click.confirm(printable(x), abort=True)", []),
        ("from click import echo", ["click.echo"]),
        ("from rich.text import Text", ["rich.text.Text"]),
        ("screen = Console(stderr=True)", ["Console"]),
        ("sys.stdout.write(x)", ["write"]),
        ("from nodeupgrade.cli.console import Text", []),
    ],
)
def test_a_way_around_it_is_found(source: str, found: list[str]) -> None:
    assert list(printing(source)) == found
