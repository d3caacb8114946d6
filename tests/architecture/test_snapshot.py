"""A snapshot of the fleet is taken apart close to where it comes in; what is made of it goes on in its place.

Each call counts that gets the snapshot itself, whether a function, a method or a property, and none is exempt. A visit
begins whenever the next of these calls, or the return from one, is in another module; each function is read once. What
is made of a snapshot, such as a ledger or a candidate, is not followed: it says itself what it holds.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from types import FrameType
from typing import Any

import pytest

from nodeupgrade.fleet.controllers import node_controller, rollout_controller
from nodeupgrade.fleet.decide.flight import advance
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.snapshot import FleetSnapshot
from tests.model.steps import Model
from tests.model.walks import walk
from tests.model.worlds import ONE, TWO

MOST_MODULES, MOST_VISITS = 12, 40
WALKS = 4
"""How many random walks of each small world are taken; each plans and advances hundreds of times."""


@contextmanager
def noted(visits: list[str]) -> Iterator[None]:
    """Note the modules of the calls that get a snapshot."""
    read, open_calls = set[object](), list[FrameType]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and open_calls and open_calls[-1] is frame:
            open_calls.pop()
            visits.extend([_module(open_calls[-1])] if open_calls else [])
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if event != "call" or code in read:
            return
        if any(isinstance(frame.f_locals[name], FleetSnapshot) for name in arguments if name in frame.f_locals):
            read.add(code)
            open_calls.append(frame)
            visits.append(_module(frame))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        visits[:] = [module for module, _ in groupby(visits)]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals["__name__"])


def following(decide: Callable[..., Any], calls: list[list[str]]) -> Callable[..., Any]:
    """Return a function that does the same, and adds what it visits."""

    def decide_and_note(*args: Any) -> Any:
        calls.append([])
        with noted(calls[-1]):
            return decide(*args)

    return decide_and_note


def test_what_is_visited_is_noted() -> None:
    def inner(fleet: object) -> None:
        del fleet

    def outer(fleet: FleetSnapshot) -> list[str]:
        inner(fleet)
        inner(None)
        return list(fleet.names)

    fleet, calls = object.__new__(FleetSnapshot), list[list[str]]()
    for name in ("nodes", "tasks", "unreadable", "slots"):
        fleet.__dict__[name] = {}
    assert following(outer, calls)(fleet) == []
    assert calls == [[__name__, FleetSnapshot.__module__, __name__]]


@pytest.mark.timeout(300)
def test_few_modules_read_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, advances = list[list[str]](), list[list[str]]()
    monkeypatch.setattr(rollout_controller, "plan", following(plan, plans))
    monkeypatch.setattr(node_controller, "advance", following(advance, advances))
    for world in (ONE, TWO):
        model = Model(world)
        for seed in range(WALKS):
            walk(model, seed)
    for calls in (plans, advances):
        assert len(calls) > 50
        assert len({module for visits in calls for module in visits}) <= MOST_MODULES
        assert max(map(len, calls)) <= MOST_VISITS
