"""The search: all states that can be reached with few disturbances, those with fewer first, the nearest first."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.liveness import CIRCLES, comes_to_rest, silent
from tests.model.state import State
from tests.model.steps import Model

NEVER_ENDS = "once nothing disturbs, a rollout ends or says what it waits for"


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
    _index: dict[tuple[int, ...], int] = field(default_factory=dict)
    _from: list[tuple[int, str, str]] = field(default_factory=list)  # by state: parent, words, kind of disturbance
    _depth: list[int] = field(default_factory=list)
    _cost: list[int] = field(default_factory=list)  # by state: the fewest disturbances on a way to it
    _moves: dict[int, list[int]] = field(default_factory=dict)  # by expanded state: where it goes by itself
    _ends: set[int] = field(default_factory=set)  # states in which nothing happens any more, and that say why
    _rests: set[tuple[int, ...]] = field(default_factory=set)  # states that come to rest
    _levels: list[deque[tuple[int, State]]] = field(default_factory=list)

    def run(self) -> None:
        """Search until everything is seen, or a bound is reached."""
        self._levels = [deque() for _ in range(self.bounds.disturbances + 1)]
        self._add(self.model.world.start(), 0, -1, "", "")
        began = time.process_time()
        for cost, level in enumerate(self._levels):
            while level:
                if len(self._from) > self.bounds.states or time.process_time() - began > self.bounds.seconds:
                    return self._conclude()
                number, state = level.popleft()
                if self._cost[number] < cost:
                    continue  # a way with fewer disturbances was found meanwhile
                if not self._expand(number, state, cost) or self._is_enough():
                    return None
            self.report(f"{cost} disturbances: {len(self._index)} states, {self.transitions} transitions, "
                        f"{time.process_time() - began:.0f} s")  # fmt: skip
        self.complete = True
        return self._conclude()

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
        moves, still, quiet = self._moves.setdefault(number, []), True, True
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
                self._ends.add(number)  # it is told already
                continue
            after = self._add(each.state, cost + each.cost, number, each.words, each.kind)
            if each.progress:
                moves.append(after)
        if quiet and not still and not any(silent(state)):
            self._ends.add(number)  # it looks again and again, and says what it waits for
        if still:
            self._ends.add(number)
            if wrong := tuple((NEVER_ENDS, problem) for problem in silent(state)):
                self._note(wrong, number, "", "")
                return not self.bounds.stop
        disturbed = self.bounds.every and (self._from[number][2] or number % self.bounds.every == 0)
        if not still and disturbed and (problem := comes_to_rest(self.model, state, self._rests)):
            self._note(((NEVER_ENDS, problem),), number, "", "")
            return not self.bounds.stop
        return True

    def _add(self, state: State, cost: int, parent: int, words: str, kind: str) -> int:
        known = self._index.get(state.key)
        if known is None:
            known = self._index[state.key] = len(self._from)
            self._from.append((parent, words, kind))
            self._depth.append(self._depth[parent] + 1 if parent >= 0 else 0)
            self._cost.append(cost)
            self._levels[cost].append((known, state))
        elif cost < self._cost[known]:
            self._from[known], self._cost[known] = (parent, words, kind), cost
            self._depth[known] = self._depth[parent] + 1
            self._levels[cost].append((known, state))
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
            number, words, kind = self._from[number]
            path.append(words)
            kinds += [kind] if kind else []
        return tuple(reversed(path)), tuple(reversed(kinds))

    def _conclude(self) -> None:
        """Find states from which no end can be reached, whatever comes next of what happens by itself."""
        back: dict[int, list[int]] = {}
        for number, moves in self._moves.items():
            for after in moves:
                back.setdefault(after, []).append(number)
        good = {number for number in range(len(self._from)) if number not in self._moves} | self._ends
        waiting = [*good]
        while waiting:
            for before in back.get(waiting.pop(), ()):
                if before not in good:
                    good.add(before)
                    waiting.append(before)
        for number in sorted(set(self._moves) - good):
            self._note(((NEVER_ENDS, CIRCLES),), number, "", "")
            if self.bounds.stop:
                return
