"""Canonical objects: equal wherever only clocks, resourceVersions and the IDs of runs differ.

Every state is at the same present, ``NOW``; each step takes one second. Afterwards what the step has written is brought
back to that present: times become ages, rounded to what matters, and runs get the lowest free number. So two paths that
differ in nothing that matters meet in the same objects, which are parsed once.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

from nodeupgrade.api.json import Json, timestamp

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The present of every state."""

PRESENT = NOW + timedelta(seconds=1)
"""The present of every step."""

ANCIENT = timedelta(hours=12)
"""Times that are older than this never change: those with which a world begins, and the ages of NodeUpgrades."""

OLD, GRAIN = 10800, 30
"""Ages in seconds: what is older than two hours counts as three hours old; the others are rounded."""

TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
UID = re.compile(r"[a-z]\d\di\d\dzz")
RUN = re.compile(r"([a-z]\d\di\d\dzz)-(\d{14})")
INFORMATIVE = re.compile(r'("(?:lastTransitionTime|approvedAt|plannedAt|startedAt|completedAt)": )"[^"]*"')
"""Times in a NodeUpgrade that nothing is decided by, as long as the model sets no timeouts for waves and rollouts."""
LEADER = "leader"
"""The name of every leader; only its term differs, which is 2 at present and was 1 before."""

Key: TypeAlias = tuple[str, str | None, str]
"""Plural, namespace, name."""


class Object:
    """One version of an object, never changed; ``number`` is -1 while a step has written it."""

    __slots__ = ("body", "node", "number", "runs", "text", "uids", "view")

    def __init__(self, body: Json, number: int = -1, text: str = "") -> None:
        self.body, self.number, self.text = body, number, text
        self.view: Any = None  # what its reader has made of it, see ``adapter``
        self.runs = frozenset(found[0] for found in RUN.finditer(text))
        self.uids = frozenset(UID.findall(text))
        self.node = body.get("spec", {}).get("nodeName", "")


_KNOWN: dict[tuple[str, str], Object] = {}
_NUMBERS = count(1)


def interned(plural: str, text: str) -> Object:
    """Return the only object with this text."""
    if (known := _KNOWN.get((plural, text))) is None:
        known = _KNOWN[plural, text] = Object(json.loads(text), next(_NUMBERS), text)
    return known


def settled(plural: str, body: Json, rename: Callable[[str], str]) -> Object:
    """Return what a step has written as it is seen from the next step; ``rename`` gives new runs their names."""
    text = TIME.sub(lambda found: aged(found[1], 1), written(plural, body))
    return interned(plural, RUN.sub(lambda found: rename(found[0]), text))


def shifted(plural: str, known: Object, seconds: int) -> Object:
    """Return an object after so many seconds."""
    return interned(plural, TIME.sub(lambda found: aged(found[1], seconds), known.text))


def written(plural: str, body: Json) -> str:
    """Return the text of an object, without what never matters."""
    metadata = {**body["metadata"], "resourceVersion": "1"}
    body = {**body, "metadata": metadata}
    if plural in {"nodes", "nodeupgradetasks"}:  # nothing is decided by these generations
        metadata["generation"] = 1
        if "observedGeneration" in body.get("status", {}):
            body["status"] = {**body["status"], "observedGeneration": 1}
    text = json.dumps(body, sort_keys=True)
    return INFORMATIVE.sub(r'\1"2025-06-01T00:00:00Z"', text) if plural == "nodeupgrades" else text


def born(rank: int) -> str:
    """Return when the NodeUpgrade of this rank was created; the order is all that matters of it."""
    return timestamp(NOW - timedelta(days=9 - rank))


@lru_cache(maxsize=65536)
def aged(moment: str, seconds: int) -> str:
    """Return a time as it is seen after so many seconds."""
    at = datetime.fromisoformat(f"{moment}+00:00")
    return timestamp(at if NOW - at > ANCIENT else NOW - timedelta(seconds=rounded(NOW - at, seconds)))


def rounded(age: timedelta, more: int = 0) -> int:
    """Return an age after so many seconds more; it is negative for what is still to come."""
    seconds = int(age.total_seconds()) + more
    if seconds < 0:
        return -((GRAIN - 1 - seconds) // GRAIN * GRAIN)
    if seconds < GRAIN:
        return 1
    return OLD if seconds >= 7200 else round(seconds / GRAIN) * GRAIN


@dataclass(slots=True)
class Renaming:
    """Gives the runs that begin in one step the lowest numbers that their node does not use."""

    used: Callable[[str], set[str]]  # the runs that a node's other objects name
    _given: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, node: str) -> Callable[[str], str]:
        """Return how the runs of one node are renamed."""

        def rename(run: str) -> str:
            if run[9:] < NEW_RUN:
                return run
            if (node, run) not in self._given:
                taken = self.used(node) | {new for (which, _), new in self._given.items() if which == node}
                known = (f"{run[:9]}202501010000{number:02d}" for number in count())
                self._given[node, run] = next(each for each in known if each not in taken)
            return self._given[node, run]

        return rename


NEW_RUN = "2025020"
"""Where the IDs of runs begin that have not been renamed yet."""


def settled_value(value: Any, seconds: int, runs: Callable[[str], str]) -> Any:  # Any: whatever is remembered
    """Return what is kept in memory as it is seen after so many seconds."""
    if isinstance(value, str) and type(value).__name__ == "str":
        return runs(TIME.sub(lambda found: aged(found[1], seconds), value))
    if isinstance(value, datetime):
        return value if NOW - value > ANCIENT else NOW - timedelta(seconds=rounded(NOW - value, seconds))
    if isinstance(value, dict):
        return {key: settled_value(each, seconds, runs) for key, each in sorted(value.items(), key=repr)}
    if isinstance(value, tuple):
        return tuple(settled_value(each, seconds, runs) for each in value)
    if (names := getattr(type(value), "__dataclass_fields__", None)) is not None:
        return type(value)(**{name: settled_value(getattr(value, name), seconds, runs) for name in names})
    return value
