"""What is decided about a rollout, and about a node in flight, reads from top to bottom.

A reader follows the calls of a walk in their order, and reads each function once. A room is a module; a stay begins
whenever the next function to be read is in another room than the last. Nobody goes into what is known by its name:
methods of values, and the entries of a list or table of rules.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from nodeupgrade.domain import rollout
from nodeupgrade.domain.check import Check
from nodeupgrade.engine.rollout import node_controller, rollout_controller
from tests.scenario.rollout.harness import Scene

HOUSE = [importlib.import_module(f"{rollout.__name__}.{each.name}") for each in pkgutil.iter_modules(rollout.__path__)]


def read_in(room: ModuleType) -> Iterator[CodeType]:
    """Yield the functions of a module, and the methods of what is more than a value."""
    for each in vars(room).values():
        if getattr(each, "__module__", "") != room.__name__:
            continue
        if inspect.isclass(each) and not (dataclasses.is_dataclass(each) or issubclass(each, BaseException)):
            yield from (made.__code__ for made in vars(each).values() if inspect.isfunction(made))
        elif inspect.isfunction(inspect.unwrap(each)):
            yield inspect.unwrap(each).__code__


def rules_in(room: ModuleType) -> Iterator[CodeType]:
    """Yield the entries of its lists and tables of rules."""
    for each in vars(room).values():
        entries = each.values() if isinstance(each, dict) else each if isinstance(each, tuple) else ()
        for entry in entries:
            rule = inspect.getclosurevars(entry.find).nonlocals["function"] if isinstance(entry, Check) else entry
            if inspect.isfunction(rule):
                yield rule.__code__


ROOM_OF = {code: room.__name__ for room in HOUSE for code in read_in(room)}
RULES = frozenset(code for room in HOUSE for code in rules_in(room))


def walked(walks: list[list[str]], decide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that decides as before, and notes the rooms of the functions to be read for that."""

    def decide_and_note(*args: Any) -> Any:
        read = dict[CodeType, str]()

        def note(frame: FrameType, event: str, _: object) -> None:
            above: FrameType | None = frame
            while event == "call" and above is not None and above.f_code not in RULES:
                above = above.f_back
            if event == "call" and above is None and frame.f_code in ROOM_OF:
                read.setdefault(frame.f_code, ROOM_OF[frame.f_code])

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            return decide(*args)
        finally:
            sys.setprofile(before)
            walks.append([room for room, _ in groupby(read.values())])

    return decide_and_note


def test_control_a_detour_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide() -> None:
        go_elsewhere()
        follow_a_rule()
        go_on()

    def go_elsewhere() -> None:
        go_on()

    def go_on() -> None:
        pass

    def follow_a_rule() -> None:
        go_unseen()

    def go_unseen() -> None:
        pass

    rooms = {decide: "own", go_elsewhere: "detour", go_on: "own", follow_a_rule: "rules", go_unseen: "hidden"}
    for function, room in rooms.items():
        monkeypatch.setitem(ROOM_OF, function.__code__, room)
    monkeypatch.setattr(f"{__name__}.RULES", frozenset({follow_a_rule.__code__}))
    walks = list[list[str]]()
    walked(walks, decide)()

    assert walks == [["own", "detour", "own"]]


@pytest.mark.parametrize(
    ("controller", "name", "most_rooms", "most_stays"),
    [(rollout_controller, "plan", 15, 25), (node_controller, "advance", 7, 12)],
)
async def test_a_decision_reads_from_top_to_bottom(
    controller: ModuleType, name: str, most_rooms: int, most_stays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = list[list[str]]()
    monkeypatch.setattr(controller, name, walked(walks, getattr(controller, name)))
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.run()

    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert [walk for walk in walks if len(set(walk)) > most_rooms or len(walk) > most_stays] == []
    assert max(map(len, walks)) > 2, "nothing was followed"
