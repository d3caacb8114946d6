"""Makes trials: ``python -m e2e.fleet_faults [--trials 20000] [--seed N] [--jobs N] [--fault NAME]``."""

import argparse
import logging
import os
import secrets
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import structlog

from e2e.fleet_faults.trial import Outcome, try_out
from e2e.fleet_faults.weather import Fault

TRIALS = 20_000


def main() -> int:
    """Make the trials and print what failed, with the seed that repeats it; return 0 if nothing did."""
    asked = argparse.ArgumentParser(prog="python -m e2e.fleet_faults", description=__doc__)
    asked.add_argument("--trials", type=int, default=TRIALS)
    asked.add_argument("--seed", type=int, default=None, help="of the first trial; the others follow")
    asked.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--fault", choices=[fault.name for fault in Fault], action="append", help="only these")
    given = asked.parse_args()
    first = secrets.randbelow(10**9) if given.seed is None else given.seed
    faults = None if given.fault is None else frozenset(Fault[name] for name in given.fault)
    print(f"seeds {first} to {first + given.trials - 1}", flush=True)
    failed, happened = 0, Counter[Fault]()
    with ProcessPoolExecutor(given.jobs, initializer=quiet) as pool:
        for outcome in pool.map(_make, range(first, first + given.trials), [faults] * given.trials, chunksize=4):
            happened.update(outcome.happened)
            if outcome.problems:
                failed += 1
                print(told(outcome), flush=True)
    for fault, count in sorted(happened.items()):
        print(f"{count:7}  {fault}")
    print(f"{given.trials} trials, {failed} failed")
    return 1 if failed else 0


def _make(seed: int, faults: frozenset[Fault] | None) -> Outcome:
    return try_out(seed, faults)


def told(outcome: Outcome) -> str:
    """Return what failed, and how to see it again."""
    fence = "with the fence" if outcome.fenced else "without the fence"
    faults = ", ".join(fault.name for fault in outcome.faults)
    return f"seed {outcome.seed} ({fence}; {faults}):\n" + "\n".join(f"  {problem}" for problem in outcome.problems)


def quiet() -> None:
    """Say nothing of what operators say."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    sys.exit(main())
