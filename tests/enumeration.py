"""How much of an enumeration is tried: every n-th case by default, and all by hand (``make test-whole``)."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

WHOLE = os.environ.get("NODEUPGRADE_WHOLE", "0") != "0"

Case = TypeVar("Case")


def tried(cases: Iterable[Case], every: int = 3) -> list[Case]:
    """Return the cases that are tried; the mutants of tests/crash must be caught by these."""
    return list(islice(cases, 0, None, 1 if WHOLE else every))
