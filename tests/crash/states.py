"""The moments of a run at which a node is in different states: to strike it twice in the same one tells nothing new.

The state is everything in the doubles of a node. What the executor remembers is no part of it, since that dies.
"""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, TypeAlias

import pytest

from tests.doubles.node import Moment, SimulatedNode
from tests.doubles.node.calls import Interrupt, never

States: TypeAlias = dict[tuple[int, Moment], int]
"""The hash of each state, by number of an effect and moment, in order."""

EFFECTS = frozenset(Moment) - {Moment.READING}

_DOUBLES = ("runtime", "shield", "kubelet", "services", "files", "packages")
_SAME_FOR_ALL = frozenset({"plan", "amended", "_known", "_listed"})
"""Of one run there is one plan; and what is computed again when it is needed."""
_MOMENTS = frozenset({"started", "_answers_from"})
_WALL_TIMES = frozenset({"created_at", "started_at"})
_CHECKSUM_AND_TIMES = re.compile(rb'^[0-9a-f]{8} |"(?:at|monotonic)":[^,}]*', re.MULTILINE)


@dataclass(frozen=True)
class Strike:
    """One interruption: at which effect, counted over all starts of the executor, when, and how hard."""

    number: int
    moment: Moment
    reboot: bool = False

    def __str__(self) -> str:
        return f"{'reboot' if self.reboot else 'kill'} {self.moment} effect {self.number}"


def single_strikes(states: States) -> Iterator[Strike]:
    """At all moments of a run that was recorded, each state once: right after an effect is right before the next one.

    A strike during an effect leaves more behind than one before it.
    """
    tried = set()
    for (number, moment), found in states.items():
        if (key := (found, moment is Moment.DURING)) not in tried:
            tried.add(key)
            yield from (Strike(number, moment, reboot) for reboot in (False, True))


def recording(
    node: SimulatedNode,
    found: States,
    then: Interrupt = never,
    *,
    timed: bool = True,
    moments: Container[Moment] = EFFECTS,
) -> Interrupt:
    """Return an interruption that notes the state at these moments of each effect, before ``then`` happens."""

    def interrupt(name: str, number: int, moment: Moment) -> None:
        if moment in moments:
            found[number, moment] = hash(state_of(node, timed=timed))
        then(name, number, moment)

    return interrupt


@dataclass(frozen=True)
class _Now:
    """The present moment, to which times in a state are relative.

    Attributes:
        monotonic: in seconds.
        nanoseconds: since the epoch.
        exactly: to a microsecond; otherwise to a second.
    """

    monotonic: float
    nanoseconds: int
    exactly: bool

    def until(self, moment: float) -> float:
        """Return how many seconds away a moment of the monotonic clock is."""
        return round(moment - self.monotonic, 6 if self.exactly else None)

    def since(self, time: int | None) -> float | None:
        """Return how many seconds ago a time was, in nanoseconds since the epoch."""
        return None if time is None else round((self.nanoseconds - time) / 1e9, 6 if self.exactly else None)


def state_of(node: SimulatedNode, *, timed: bool = True) -> object:
    """Return a value that is equal for nodes in equal states.

    Args:
        timed: whether to tell apart what differs only in when it was reached. What is to happen, and since when
            something runs, counts in any case, from the present moment: without, in whole seconds.
    """
    clock = node.timeline
    now = _Now(clock.monotonic, clock.nanoseconds, timed)
    agenda = tuple((now.until(event.at), _value(event.action, now)) for event in sorted(clock._agenda))
    journal = node.journal.data if timed else _CHECKSUM_AND_TIMES.sub(b"", node.journal.data)
    doubles = tuple(tuple(_members(vars(getattr(node, name)), now)) for name in _DOUBLES)
    pending = tuple((name, len(actions)) for name, actions in node.calls._once.items())
    moment = clock.monotonic if timed else None
    return moment, clock.boots, agenda, journal, tuple(sorted(node.disk.items())), doubles, pending


def _members(members: Mapping[str, Any], now: _Now) -> Iterator[object]:
    for name, value in members.items():
        if name in _MOMENTS:
            yield now.until(value)
        elif name in _WALL_TIMES:
            yield now.since(value)
        elif name not in _SAME_FOR_ALL and name != "_disk":
            yield _value(value, now)


def _value(value: Any, now: _Now) -> object:
    """Return an equal value that can be hashed; of functions, what they are and what they refer to."""
    match value:
        case None | str() | bytes() | int() | float() | Enum() | PurePath():
            return value
        case dict():
            return tuple((key, _value(item, now)) for key, item in value.items())
        case list() | tuple():
            return tuple(_value(item, now) for item in value)
        case set() | frozenset():
            return frozenset(value)
        case partial():
            return _value((value.func, *value.args), now)
        case MethodType() | BuiltinMethodType():
            return value.__qualname__
        case FunctionType():
            cells = (cell.cell_contents for cell in value.__closure__ or ())
            return (value.__qualname__, *(_value(cell, now) for cell in cells))
        case _ if is_dataclass(value):
            return tuple(_members({field.name: getattr(value, field.name) for field in fields(value)}, now))
        case _ if type(value).__module__.startswith("tests.doubles."):
            return type(value).__name__  # looked at by itself
        case _:
            pytest.fail(f"{type(value).__name__} is not known to be part of a state")
