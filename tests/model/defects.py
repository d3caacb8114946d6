"""Defects that the search must find: where, among which disturbances, and by which rule.

Most were in the fleet's code once, and a switch puts each back; without one, it is looked for in the code as it is. The
last ones are what late writes of a former leader do where one protection against them is missing. By hand:
``python -m tests.model.defects H1 M2`` looks for them in the code as it is, with ``--back`` in the code into which they
are put back; it prints the stories.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from tests.model import switches
from tests.model.search import NEVER_ENDS, Bounds, Found, Search
from tests.model.steps import Model
from tests.model.story import tell
from tests.model.worlds import ONE, PLANNED, SINGLE, TWO, World

Switch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect, and how it shows."""

    what: str
    world: World
    kinds: frozenset[str]
    rules: frozenset[str]
    words: str = ""  # what the problem or the way to it says, if the rule alone is not clear enough
    switch: Switch | None = None  # puts it back

    @property
    def disturbances(self) -> int:
        """How many disturbances it takes: one of each kind."""
        return len(self.kinds)


def _defect(what: str, world: World, kinds: str, *rules: str, words: str = "", switch: Switch | None = None) -> Defect:
    return Defect(what, world, frozenset(kinds.split(",")), frozenset(rules), words, switch)


DEFECTS: Mapping[str, Defect] = {
    "H1": _defect(
        "the wave of a slot is derived from a Node that is gone",
        ONE,
        "node",
        "no wave begins without its approval",
        switch=switches.h1,
    ),
    "H2": _defect("a node is cordoned and uncordoned for ever", ONE, "hold", NEVER_ENDS, switch=switches.h2),
    "H3": _defect(
        "the task of an abandoned rollout counts as being changed for ever",
        ONE,
        "abandon",
        NEVER_ENDS,
        words="somebody applies",
        switch=switches.h3,
    ),
    "H4": _defect("a node's own report makes the status invalid", ONE, "nonsense", "every status is valid"),
    "M1": _defect(
        "a rival's slots are ignored",
        TWO,
        "node",
        "no rollout skips another's node",
        "one holder",
        "one run at a time on a node",
        "one holder of a claim",
        switch=switches.m1,
    ),
    "M2": _defect(
        "a released claim of an active rollout is not free",
        TWO,
        "fail",
        NEVER_ENDS,
        words="somebody annotates retry",
        switch=switches.m2,
    ),
    "M4": _defect(
        "a claim that is refused for ever is told of and untold, again and again", ONE, "version", NEVER_ENDS
    ),
    "M3": _defect("gates are not asked again at the start", ONE, "pause", "P4 no gate is passed", switch=switches.m3),
    "waves": _defect(
        "a node that is examined begins its wave",
        PLANNED,
        "run",
        "no wave begins without its approval",
        "no wave begins before the one before has soaked",
        switch=switches.begun_by_a_plan,
    ),
    "slots": _defect(
        "a slot that was taken to examine a node becomes an upgrade",
        PLANNED,
        "run",
        "no slot of a plan becomes an upgrade",
        switch=switches.any_slot,
    ),
    "versions": _defect(
        "a write of a former leader changes an object that its successor has written meanwhile",
        SINGLE,
        "leader",
        "P3 a run keeps its slot",
        switch=switches.no_versions,
    ),
    "tasks": _defect(
        "a former leader starts a node whose slot is free",
        SINGLE,
        "leader,pause",
        "P3 no node is touched before its slot is on record",
        switch=switches.no_mark_of_tasks,
    ),
    "statuses": _defect(
        "a former leader frees the slot of a node that its successor has started",
        SINGLE,
        "leader,pause",
        "P3 a run keeps its slot",
        switch=switches.no_mark_of_statuses,
    ),
}


@dataclass(slots=True)
class Hunt:
    """A search for one defect; what else is found on the way is left aside."""

    defect: Defect
    states: int = 30_000
    seen: int = 0

    def run(self) -> Found | None:
        """Search until it is found."""
        every = Bounds().every if NEVER_ENDS in self.defect.rules else 0
        model = Model(replace(self.defect.world, kinds=self.defect.kinds))
        search = _Hunting(model, Bounds(self.defect.disturbances, self.states, every=every, stop=False))
        search.wanted = self.shows
        search.run()
        self.seen = search.states
        return next(filter(self.shows, search.found.values()), None)

    def shows(self, found: Found) -> bool:
        """Report whether it is this defect that was found."""
        told = f"{found.problem} {' '.join(found.path)}"
        return found.rule in self.defect.rules and self.defect.words in told


class _Hunting(Search):
    """A search that ends with the first thing that was wanted."""

    wanted: Callable[[Found], bool] = staticmethod(lambda _found: False)

    def _is_enough(self) -> bool:
        return any(map(self.wanted, self.found.values()))


def main() -> int:
    """Hunt the named defects, or all."""
    back, missed = "--back" in sys.argv, 0
    for name in [each for each in sys.argv[1:] if each != "--back"] or DEFECTS:
        began, hunt = time.process_time(), Hunt(DEFECTS[name])
        with pytest.MonkeyPatch.context() as patch:
            if back and (switch := DEFECTS[name].switch) is not None:
                switch(patch)
            found = hunt.run()
            words = "not found" if found is None else f"found after {len(found.path)} steps"
            words = f"{words}, {hunt.seen} states, {time.process_time() - began:.0f} s"
            print(f"{name} ({DEFECTS[name].what}): {words}\n", flush=True)
            if found is not None:
                model = Model(replace(hunt.defect.world, kinds=hunt.defect.kinds))
                print(tell(model, found), end="\n\n\n", flush=True)
        missed += (found is None) is back
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
