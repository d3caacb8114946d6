"""Search a world: ``python -m tests.model --world one --disturbances 1``."""

import argparse
import sys
import time

from tests.model.search import Bounds, Search
from tests.model.steps import Model
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
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    bounds = Bounds(asked.disturbances, asked.states, asked.seconds, stop=not asked.all)
    search = Search(Model(WORLDS[asked.world], frozenset(asked.ignore)), bounds, report=lambda line: print(line, flush=True))
    began = time.monotonic()
    if asked.profile:
        import cProfile
        import pstats
        p = cProfile.Profile()
        p.runcall(search.run)
        pstats.Stats(p).sort_stats("cumulative").print_stats(70)
    else:
        search.run()
    seconds = time.monotonic() - began
    for found in search.found.values():
        print(f"\n{found.rule}: {found.problem}")
        for words in found.path:
            print(f"    {words}")
    print(f"{search.states} states, {search.transitions} transitions, depth {search.depth}, "
          f"{'complete' if search.complete else 'not complete'}, {seconds:.0f} s, {search.transitions / seconds:.0f}/s")
    return 1 if search.found else 0


sys.exit(main())
