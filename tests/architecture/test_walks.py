"""What is decided and written about a rollout, and about a node in flight, reads from top to bottom.

A reader follows the calls of a walk in their order, and reads each function once. A room is a module; a stay begins
whenever the next function to be read is in another room than the last. Nobody goes into what is known by its name:
methods of values, the entries of a list or table of rules, and what stands behind a port or another Protocol. A plan
that is made anew because pods had to be read first is read once, as it was in the end.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import groupby
from types import CodeType, FrameType, ModuleType
from typing import Any, Protocol

import pytest

from nodeupgrade import controlplane, engine
from nodeupgrade.domain import rollout
from nodeupgrade.domain.check import Check
from nodeupgrade.domain.rollout.planner import plan
from nodeupgrade.engine import rollout as rollout_engine
from nodeupgrade.engine.rollout import node_controller, rollout_controller
from tests.doubles import kube, passes
from tests.scenario.rollout import scripted_health
from tests.scenario.rollout.harness import Scene

HOUSE = [
    importlib.import_module(f"{package.__name__}.{each.name}")
    for package in (rollout, rollout_engine, engine, controlplane)
    for each in pkgutil.iter_modules(package.__path__)
    if not each.ispkg and each.name != "__main__"
]


def is_value(kind: type) -> bool:
    """Report whether a class is a value: frozen data, or an error."""
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return frozen or issubclass(kind, tuple | BaseException | Enum)


def stands_behind_a_port(kind: type) -> bool:
    """Report whether a class is a Protocol, or implements one by name."""
    return any(getattr(each, "_is_protocol", False) for each in kind.__mro__)


def methods(kind: type) -> Iterator[CodeType]:
    """Yield the functions of a class that somebody has written."""
    for each in vars(kind).values():
        made = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
        if inspect.isfunction(made) and "__create_fn__" not in made.__qualname__:
            yield inspect.unwrap(made).__code__


def read_in(room: ModuleType) -> Iterator[CodeType]:
    """Yield the functions of a module, and the methods of what is more than a value."""
    for each in vars(room).values():
        if getattr(each, "__module__", "") != room.__name__:
            continue
        if inspect.isclass(each):
            yield from () if is_value(each) or stands_behind_a_port(each) else methods(each)
        elif inspect.isfunction(inspect.unwrap(each)):
            yield inspect.unwrap(each).__code__


def known_in(room: ModuleType) -> Iterator[CodeType]:
    """Yield the entries of its lists and tables of rules, and the methods of what stands behind a port."""
    for each in vars(room).values():
        entries = each.values() if isinstance(each, dict) else each if isinstance(each, tuple) else ()
        for entry in entries:
            rule = inspect.getclosurevars(entry.find).nonlocals["function"] if isinstance(entry, Check) else entry
            if inspect.isfunction(rule):
                yield rule.__code__
        if inspect.isclass(each) and stands_behind_a_port(each):
            yield from methods(each)


ROOM_OF = {code: room.__name__ for room in HOUSE for code in read_in(room)}
KNOWN = frozenset(code for room in (*HOUSE, kube, passes, scripted_health) for code in known_in(room))
MADE_ANEW = plan.__code__


@contextmanager
def noted(walks: list[list[str]]) -> Iterator[None]:
    """Note the rooms of the functions to be read for what is done meanwhile; one walk at a time."""
    read = dict[CodeType, str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        above: FrameType | None = frame
        if event != "call" or code not in ROOM_OF:
            return
        while above is not None and above.f_code not in KNOWN:
            above = above.f_back
        if above is not None:
            return
        if code is MADE_ANEW and code in read:
            for later in list(read)[list(read).index(code) :]:
                del read[later]
        read.setdefault(code, ROOM_OF[code])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        walks.append([room for room, _ in groupby(read.values())])


def walked(walks: list[list[str]], decide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same, and notes the walk."""

    def decide_and_note(*args: Any) -> Any:
        with noted(walks):
            return decide(*args)

    async def work_and_note(*args: Any) -> Any:
        with noted(walks):
            return await decide(*args)

    return work_and_note if inspect.iscoroutinefunction(decide) else decide_and_note


class Port(Protocol):
    def ask(self) -> None: ...


class Adapter(Port):
    def ask(self) -> None:
        go_unseen()


def go_unseen() -> None:
    pass


def test_control_a_detour_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide() -> None:
        go_elsewhere()
        follow_a_rule()
        Adapter().ask()
        go_on()

    def go_elsewhere() -> None:
        go_on()

    def go_on() -> None:
        pass

    def follow_a_rule() -> None:
        go_unseen()

    rooms = {decide: "own", go_elsewhere: "detour", go_on: "own", follow_a_rule: "rules", go_unseen: "hidden"}
    for function, room in rooms.items():
        monkeypatch.setitem(ROOM_OF, function.__code__, room)
    monkeypatch.setattr(f"{__name__}.KNOWN", frozenset({follow_a_rule.__code__, *methods(Adapter)}))
    walks = list[list[str]]()
    walked(walks, decide)()

    assert stands_behind_a_port(Adapter)
    assert walks == [["own", "detour", "own"]]


def test_control_what_is_made_anew_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        decide()
        look()
        decide()

    def decide() -> None:
        go_unseen()

    def look() -> None:
        pass

    for function, room in {work: "own", decide: "plan", go_unseen: "parts", look: "pods"}.items():
        monkeypatch.setitem(ROOM_OF, function.__code__, room)
    monkeypatch.setattr(f"{__name__}.MADE_ANEW", decide.__code__)
    walks = list[list[str]]()
    walked(walks, work)()

    assert walks == [["own", "plan", "parts"]]


@pytest.mark.parametrize(
    ("place", "name", "most_rooms", "most_stays"),
    [
        (rollout_controller, "plan", 12, 19),
        (node_controller, "advance", 6, 10),
        (rollout_controller.RolloutController, "reconcile", 15, 24),
        (node_controller.NodeController, "reconcile", 11, 24),
    ],
)
async def test_a_walk_goes_from_top_to_bottom(
    place: ModuleType | type, name: str, most_rooms: int, most_stays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = list[list[str]]()
    monkeypatch.setattr(place, name, walked(walks, getattr(place, name)))
    scene = Scene()
    await scene.install_guard()
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("web-0", "node-0")
    await scene.apply()
    await scene.run()

    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert [walk for walk in walks if len(set(walk)) > most_rooms or len(walk) > most_stays] == []
    assert max(map(len, walks)) > 2, "nothing was followed"
