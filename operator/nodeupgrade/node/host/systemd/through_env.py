"""Units that start their program through ``env``, which looks for it along ``PATH``."""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePosixPath

from nodeupgrade.node.host.systemd.units import UnitStatus

_ENV = frozenset({"/bin/env", "/usr/bin/env"})
_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def without_env(unit: UnitStatus, executable: Callable[[PurePosixPath], bool]) -> UnitStatus:
    """Return a unit as if it named the program that ``env`` runs; as it is if that cannot be told.

    Args:
        unit: the unit.
        executable: reports whether there is a program at a path.
    """
    if unit.program not in _ENV:
        return unit
    assigned = list(takewhile(lambda word: "=" in word and not word.startswith("-"), unit.command[1:]))
    words = unit.command[1 + len(assigned) :]
    if not words or words[0].startswith("-") or "$" in words[0]:
        return unit
    path = next((each.removeprefix("PATH=") for each in reversed(assigned) if each.startswith("PATH=")), "")
    # What a variable stands for is not known; it usually adds to the usual directories.
    places = [place for place in f"{path or _USUAL}:{_USUAL if '$' in path else ''}".split(":") if place[:1] == "/"]
    candidates = [PurePosixPath(words[0])] if "/" in words[0] else [PurePosixPath(p, words[0]) for p in places]
    program = next((each for each in candidates if each.is_absolute() and executable(each)), None)
    return unit if program is None else replace(unit, program=str(program), command=(str(program), *words[1:]))
