"""The search: all states that can be reached with few disturbances, those with fewer first, the nearest first.

Of a state, its key is kept, a few dozen bytes, and of the way to it the last step. Objects and outcomes of calls are
shared.
"""

import resource
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.liveness import CIRCLES, comes_to_rest, silent
from tests.model.state import State, unpacked
from tests.model.steps import Model

REPORTED = 10_000
"""After how many states the search says how far it has come."""

NEVER_ENDS = "once nothing disturbs, a rollout ends or says what it waits for"


def memory_mb() -> int:
    """Return how many MB the process has taken at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@dataclass(frozen=True, slots=True)
class Found:
    """A broken rule, and the way to it."""

    rule: str
    problem: str
    path: tuple[str, ...]  # the words of the transitions, from the beginning
    kinds: tuple[str, ...]  # the disturbances among them


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes."""

    disturbances: int = 1
    states: int = 1_000_000
    seconds: float = 1e9
    # one of so many states is let come to rest, with a turn for each, beside those just disturbed; if 0, none is
    every: int = 16
    stop: bool = True  # at the first broken rule; else it goes on elsewhere


@dataclass(slots=True)
class Search:
    """One search through one world."""

    model: Model
    bounds: Bounds
    report: Callable[[str], None] = lambda _line: None
    found: dict[tuple[str, tuple[str, ...], str], Found] = field(default_factory=dict)
    transitions: int = 0
    complete: bool = False
    _index: dict[bytes, int] = field(default_factory=dict)
    _keys: list[bytes] = field(default_factory=list)  # by state, as all that follows
    _parent: "array[int]" = field(default_factory=lambda: array("i"))
    _step: "array[int]" = field(default_factory=lambda: array("I"))  # the last step of the way to it, in ``_steps``
    _depth: "array[int]" = field(default_factory=lambda: array("I"))
    _cost: bytearray = field(default_factory=bytearray)  # the fewest disturbances on a way to it
    _expanded: bytearray = field(default_factory=bytearray)
    _ends: bytearray = field(default_factory=bytearray)  # whether nothing happens there any more, and it says why
    _steps: dict[tuple[str, str], int] = field(default_factory=dict)  # by words and kind of disturbance
    _told: list[tuple[str, str]] = field(default_factory=list)  # words and kind, by step
    # where states go by themselves: from, to
    _moves: "tuple[array[int], array[int]]" = field(default_factory=lambda: (array("I"), array("I")))
    _rests: set[bytes] = field(default_factory=set)  # states that come to rest
    _levels: list[deque[int]] = field(default_factory=list)

    def run(self) -> None:
        """Search until everything is seen, or a bound is reached."""
        self._levels = [deque() for _ in range(self.bounds.disturbances + 1)]
        self._add(self.model.world.start(), 0, -1, "", "")
        began, expanded = time.process_time(), 0
        for cost, level in enumerate(self._levels):
            while level:
                if len(self._keys) > self.bounds.states or time.process_time() - began > self.bounds.seconds:
                    return self._conclude()
                number = level.popleft()
                if self._cost[number] < cost:
                    continue  # a way with fewer disturbances was found meanwhile
                if not self._expand(number, unpacked(self._keys[number]), cost) or self._is_enough():
                    return None
                if (expanded := expanded + 1) % REPORTED == 0:
                    waiting = ", ".join(f"{len(each)} with {n}" for n, each in enumerate(self._levels) if each)
                    self.report(f"{expanded} states expanded, {waiting} disturbances wait, {self._so_far(began)}")
            self.report(f"all with {cost} disturbances: {self._so_far(began)}")
        self.complete = True
        return self._conclude()

    def _so_far(self, began: float) -> str:
        return f"{self.states} states, {self.transitions} transitions, {time.process_time() - began:.0f} s"

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self._index)

    @property
    def depth(self) -> int:
        """The length of the longest way to a state that was looked at."""
        return max(self._depth)

    def _is_enough(self) -> bool:
        """Report whether to stop although a bound allows more; a kind of search may say so."""
        return False

    def _expand(self, number: int, state: State, cost: int) -> bool:
        still, quiet, (sources, targets) = True, True, self._moves
        self._expanded[number] = 1
        for each in self.model.transitions(state, disturbed=cost < self.bounds.disturbances):
            self.transitions += 1
            if each.wrong:
                self._note(each.wrong, number, each.words, each.kind)
                if self.bounds.stop:
                    return False
            same = each.state.key == state.key
            if each.progress and not same:
                still = False
                quiet &= not each.wrote
            if same:
                continue
            if each.wrong:
                self._ends[number] = 1  # it is told already
                continue
            after = self._add(each.state, cost + each.cost, number, each.words, each.kind)
            if each.progress:
                sources.append(number)
                targets.append(after)
        if quiet and not still and not any(silent(state)):
            self._ends[number] = 1  # it looks again and again, and says what it waits for
        if still:
            self._ends[number] = 1
            if wrong := tuple((NEVER_ENDS, problem) for problem in silent(state)):
                self._note(wrong, number, "", "")
                return not self.bounds.stop
        disturbed = self.bounds.every and (self._told[self._step[number]][1] or number % self.bounds.every == 0)
        if not still and disturbed and (problem := comes_to_rest(self.model, state, self._rests)):
            self._note(((NEVER_ENDS, problem),), number, "", "")
            return not self.bounds.stop
        return True

    def _add(self, state: State, cost: int, parent: int, words: str, kind: str) -> int:
        known = self._index.get(state.key)
        step = self._steps.setdefault((words, kind), len(self._told))
        if step == len(self._told):
            self._told.append((words, kind))
        depth = self._depth[parent] + 1 if parent >= 0 else 0
        if known is None:
            known = self._index[state.key] = len(self._keys)
            self._keys.append(state.key)
            self._parent.append(parent)
            self._step.append(step)
            self._depth.append(depth)
            self._cost.append(cost)
            self._expanded.append(0)
            self._ends.append(0)
            self._levels[cost].append(known)
        elif cost < self._cost[known]:
            self._parent[known], self._step[known], self._depth[known], self._cost[known] = parent, step, depth, cost
            self._levels[cost].append(known)
        return known

    def _note(self, wrong: tuple[tuple[str, str], ...], number: int, words: str, kind: str) -> None:
        path, kinds = self._way(number)
        path, kinds = (*path, *([words] if words else [])), (*kinds, *([kind] if kind else []))
        for rule, problem in wrong:
            if (rule, kinds, problem) not in self.found:
                self.found[rule, kinds, problem] = Found(rule, problem, path, kinds)
                self.report(f"{rule}: {problem} ({', '.join(kinds)}; {len(path)} steps)")

    def _way(self, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        path, kinds = list[str](), list[str]()
        while number > 0:
            words, kind = self._told[self._step[number]]
            number = self._parent[number]
            path.append(words)
            kinds += [kind] if kind else []
        return tuple(reversed(path)), tuple(reversed(kinds))

    def _conclude(self) -> None:
        """Find states from which no end can be reached, whatever comes next of what happens by itself."""
        good = bytearray(end or not expanded for end, expanded in zip(self._ends, self._expanded, strict=True))
        changed = True
        while changed:  # from the last state to the first, since most lead to later ones
            changed = False
            for source, target in zip(reversed(self._moves[0]), reversed(self._moves[1]), strict=True):
                if good[target] and not good[source]:
                    good[source] = changed = True
        for number in (number for number, each in enumerate(good) if not each):
            self._note(((NEVER_ENDS, CIRCLES),), number, "", "")
            if self.bounds.stop:
                return
