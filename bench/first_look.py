"""How long help and the completion of a command's name take, against the libraries that they cannot do without.

`make bench` runs it; it fails when the ratio is above its target. A ratio, since machines differ.
"""
# ruff: noqa: INP001 - a script, not part of a package

import os
import subprocess
import sys
import time
from collections.abc import Mapping

ROUNDS = 9
AT_MOST = 3.0
FLOOR = ["-c", "import click, rich.console, rich.table"]
PROGRAM = ["-m", "nodeupgrade.cli"]
TAB = {"_NODEUPGRADE_COMPLETE": "bash_complete", "COMP_WORDS": "nodeupgrade sta", "COMP_CWORD": "1"}


def seconds(arguments: list[str], environment: Mapping[str, str]) -> float:
    """Return the fastest of several runs, after one that fills the page cache and the compiled modules."""
    taken = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        argv = [sys.executable, *arguments]
        subprocess.run(argv, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, timeout=60, check=True)
        taken.append(time.perf_counter() - started)
    return min(taken[1:])


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    floor = seconds(FLOOR, {})
    rows = {"--help": seconds([*PROGRAM, "--help"], {}), "TAB": seconds(PROGRAM, TAB)}
    for name, taken in rows.items():
        print(f"nodeupgrade {name:<6}  {taken:.3f} s  {taken / floor:.1f} times click and rich  (at most {AT_MOST:g})")
    return int(max(rows.values()) > AT_MOST * floor)


if __name__ == "__main__":
    raise SystemExit(main())
