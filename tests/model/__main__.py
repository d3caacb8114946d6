"""Search a world: ``python -m tests.model --world one --disturbances 1``; the last line is a row of docs/measured."""

import argparse
import json
import sys
import time
from dataclasses import replace

from tests.model.search import Bounds, Search, memory_mb
from tests.model.steps import Model
from tests.model.story import tell
from tests.model.worlds import WORLDS


def main() -> int:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--world", choices=[*WORLDS], default="one")
    parser.add_argument("--disturbances", type=int, default=1, help="how many on one way")
    parser.add_argument("--states", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--all", action="store_true", help="go on after a broken rule")
    parser.add_argument("--ignore", action="append", default=[], help="a rule that is not asked")
    parser.add_argument("--kinds", default="", help="only these kinds of disturbances, with commas between them")
    asked = parser.parse_args()
    bounds = Bounds(asked.disturbances, asked.states, asked.seconds, stop=not asked.all)
    world = replace(WORLDS[asked.world], kinds=frozenset(filter(None, asked.kinds.split(","))))
    search = Search(Model(world, frozenset(asked.ignore)), bounds, report=lambda line: print(line, flush=True))
    began = time.process_time()
    search.run()
    seconds = time.process_time() - began
    for found in search.found.values():
        print(f"\n{tell(search.model, found)}\n")
    print(json.dumps({
        "world": asked.world, "disturbances": asked.disturbances, "states": search.states,
        "transitions": search.transitions, "depth": search.depth, "seen": "all" if search.complete else "in part",
        "broken_rules": len(search.found), "cpu_seconds": round(seconds), "memory_mb": memory_mb(),
    }))  # fmt: skip
    return 1 if search.found else 0


sys.exit(main())
