"""Random walks through a world that is too large to be searched.

``python -m tests.model.walks --seed 1 --count 100``; the last line is data.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.model.events import event_deeds
from tests.model.liveness import comes_to_rest
from tests.model.nodeside import agent_deeds
from tests.model.search import NEVER_ENDS, Found, memory_mb
from tests.model.state import State
from tests.model.steps import Model, Transition
from tests.model.story import narrated
from tests.model.worlds import WORLDS

BOUNDED = 100
"""After how many walks everything is forgotten that they have in common, so that memory is bounded."""

STEPS, MOST_DISTURBANCES = 120, 8
DISTURBED, INTERRUPTED, ANSWERED = 0.06, 0.02, 0.05
"""How likely a step is a disturbance, an operator that dies or another leader, or the answer to what was disturbed."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk: what it has come to, and what is wrong, if anything is."""

    gone: tuple[Transition, ...]
    found: Found | None


def walk(model: Model, seed: int) -> Walk:
    """Take a walk, and let everything come to rest at its end."""
    chance, state, gone = random.Random(seed), model.world.start(), list[Transition]()  # noqa: S311 - it walks
    kinds = list[str]()
    for _ in range(STEPS):
        may = len(kinds) < MOST_DISTURBANCES
        each = _step(model, state, chance, disturbed=may) or (_disturbance(model, state, chance) if may else None)
        if each is None:
            break
        gone.append(each)
        kinds += [each.kind] if each.kind else []
        if each.wrong:
            return Walk(tuple(gone), _found(gone, kinds, *each.wrong[0]))
        state = each.state
    problem = comes_to_rest(model, state, set())
    return Walk(tuple(gone), _found(gone, kinds, NEVER_ENDS, problem) if problem else None)


def _found(gone: list[Transition], kinds: list[str], rule: str, problem: str) -> Found:
    return Found(rule, problem, tuple(each.words for each in gone), tuple(kinds))


def _step(model: Model, state: State, chance: random.Random, *, disturbed: bool) -> Transition | None:
    """Take one step; most go on with what happens by itself."""
    dice = chance.random()
    if dice < DISTURBED and disturbed and (each := _disturbance(model, state, chance)) is not None:
        return each
    if dice < DISTURBED + INTERRUPTED and disturbed:
        calls = [*model.calls(state)]
        if calls and (ways := [*model.interrupted(state, model.called(state, chance.choice(calls)))]):
            return chance.choice(ways)
    answers = [each for each in event_deeds(model.world, state) if not each.cost]
    if dice > 1 - ANSWERED and answers:
        return model.deed(state, chance.choice(answers))
    return _goes_on(model, state, chance)


def _disturbance(model: Model, state: State, chance: random.Random) -> Transition | None:
    deeds = [each for each in (*agent_deeds(state), *event_deeds(model.world, state)) if each.cost]
    return model.deed(state, chance.choice(deeds)) if deeds else None


def _goes_on(model: Model, state: State, chance: random.Random) -> Transition | None:
    ways: list[Callable[[], Transition]] = [
        lambda call=call: model.called(state, call).transition  # type: ignore[misc]
        for call in model.calls(state)
    ]
    ways += [lambda deed=deed: model.deed(state, deed) for deed in agent_deeds(state) if not deed.cost]  # type: ignore[misc]
    ways += [lambda: model.arrives(state)] if state.late else []
    chance.shuffle(ways)
    for way in ways:
        if (each := way()).wrong or each.state.key != state.key:
            return each
    return model.passed(state)


def main() -> int:
    """Take walks, and tell the first one on which a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.walks", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", choices=[*WORLDS], default="three")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--all", action="store_true", help="go on after a broken rule, and name each only")
    parser.add_argument("--ignore", action="append", default=[], help="a rule that is not asked")
    asked = parser.parse_args()
    model, steps, broken = Model(WORLDS[asked.world], frozenset(asked.ignore)), 0, 0
    for seed in range(asked.seed, asked.seed + asked.count):
        if (seed - asked.seed) % BOUNDED == 0:
            model.forget()
        done = walk(model, seed)
        steps += len(done.gone)
        if done.found is None or done.found.rule in asked.ignore:
            continue
        broken += 1
        print(f"seed {seed}: {done.found.rule}: {done.found.problem} ({', '.join(done.found.kinds)})", flush=True)
        if not asked.all:
            print(narrated(model, done.found, done.gone))
            break
    print(json.dumps({
        "world": asked.world, "walks": asked.count, "first_seed": asked.seed, "steps": steps, "broken_rules": broken,
        "cpu_seconds": round(time.process_time()), "memory_mb": memory_mb(),
    }))  # fmt: skip
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
