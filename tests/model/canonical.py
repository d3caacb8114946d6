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
INFORMATIVE = frozenset({"lastTransitionTime", "approvedAt", "plannedAt", "startedAt", "completedAt", "since"})
"""Times in a NodeUpgrade that nothing is decided by, as long as the model sets no timeouts for waves and rollouts; the
end of a wave is not one of them, since its soak is counted from there.
"""
PAST, FUTURE = "2025-06-01T00:00:00Z", "2027-06-01T00:00:00Z"
"""What stands for such a time, and for that of the last progress where no silence is waited for."""
LEADER = "leader"
"""The name of every leader; only its term differs, which is 2 at present and was 1 before."""

Key: TypeAlias = tuple[str, str | None, str]
"""Plural, namespace, name."""

GHOST: Key = ("ghost", None, "ghost")
"""What the checker keeps in mind, beside the objects: which runs go on on the hosts, what failed, what was opened."""

LATE = "late"
"""The kind of the writes of a former leader that are still on their way, in the order in which it sends them."""

NOT_SERVED = frozenset({GHOST[0], LATE})
UPGRADE = "nodeupgrades"


class Object:
    """One version of an object, never changed."""

    __slots__ = ("_shifted", "body", "key", "number", "place", "runs", "text", "uids", "view")

    def __init__(self, key: Key, text: str, number: int) -> None:
        self.key, self.text, self.number, self.place = key, text, number, (key[0], key[1] or "", key[2])
        self.body: Json = json.loads(text)
        self.view: Any = None  # what its reader has made of it, see ``adapter``
        self.runs = frozenset(found[0] for found in RUN.finditer(text))
        self.uids = frozenset(UID.findall(text))
        self._shifted = dict[int, Object]()

    def shifted(self, seconds: int) -> "Object":
        """Return the object after so many seconds."""
        if (known := self._shifted.get(seconds)) is None:
            text = TIME.sub(lambda found: aged(found[1], seconds), self.text)
            known = self._shifted[seconds] = self if text == self.text else interned(self.key, text)
        return known


NUMBERS = count(1)
"""Numbers of objects, and of what is remembered; none is used twice."""

OBJECTS = dict[int, Object]()
_KNOWN = dict[tuple[Key, str], Object]()


def interned(key: Key, text: str) -> Object:
    """Return the only object with this text."""
    if (known := _KNOWN.get((key, text))) is None:
        known = _KNOWN[key, text] = Object(key, text, next(NUMBERS))
        OBJECTS[known.number] = known
    return known


def forget_objects() -> None:
    """Forget all objects, so that memory is bounded; no state of before can be gone on from."""
    OBJECTS.clear()
    _KNOWN.clear()


def fixed(key: Key, body: Json | None) -> "Object | Json | None":
    """Return what a step has written as it is seen from the next step, if that does not depend on other objects."""
    if body is None:
        return None
    text = TIME.sub(lambda found: aged(found[1], 1), written(key[0], body))
    return body if any(found[2] >= NEW_RUN for found in RUN.finditer(text)) else interned(key, text)


def settled(key: Key, body: Json, renaming: "Renaming") -> Object:
    """Return what a step has written as it is seen from the next step; ``renaming`` gives new runs their names."""
    text = TIME.sub(lambda found: aged(found[1], 1), written(key[0], _renamed_slots(body, renaming)))
    rename = renaming.of(node_of(body))
    return interned(key, RUN.sub(lambda found: rename(found[0]), text))


def node_of(body: Json) -> str:
    """Return the node that an object is about; empty if it is about none, or about several."""
    spec = body.get("spec")
    return str(spec.get("nodeName", "")) if isinstance(spec, dict) else ""


def runs_of_slots(body: Json, node: str) -> set[str]:
    """Return the runs of a node that a NodeUpgrade has on record, except those that have not been renamed yet."""
    listed = (body.get("status") or {}).get("inFlight") or ()
    runs = (found for each in listed if each["node"] == node and (found := RUN.match(each.get("run", ""))) is not None)
    return {found[0] for found in runs if found[2] < NEW_RUN}


def _renamed_slots(body: Json, renaming: "Renaming") -> Json:
    """Return a NodeUpgrade, or a late write of its status, with the runs of its slots renamed as those of tasks."""
    where = "status" if "status" in body else "call"
    held = body.get(where) or {}
    status = held.get("body") if where == "call" else held
    if not isinstance(status, dict) or not status.get("inFlight"):
        return body
    slots = [_renamed_slot(each, renaming) for each in status["inFlight"]]
    renamed = {**status, "inFlight": slots}
    return {**body, where: {**held, "body": renamed} if where == "call" else renamed}


def _renamed_slot(slot: Json, renaming: "Renaming") -> Json:
    run = slot.get("run", "")
    if (found := RUN.match(run)) is None:
        return slot
    return {**slot, "run": f"{renaming.of(slot['node'])(found[0])}{run[found.end() :]}"}


def written(plural: str, body: Json) -> str:
    """Return the text of an object, without what never matters."""
    metadata = {**body["metadata"], "resourceVersion": "1"}
    body = {**body, "metadata": metadata}
    if plural in {"nodes", "nodeupgradetasks"}:  # nothing is decided by these generations
        metadata["generation"] = 1
        if "observedGeneration" in body.get("status", {}):
            body["status"] = {**body["status"], "observedGeneration": 1}
    if plural == "nodeupgrades" and "status" in body:
        body["status"] = _undated(body["status"], body["spec"])
    return json.dumps(body, sort_keys=True)


def _undated(status: Json, spec: Json) -> Json:
    """Return the status of a NodeUpgrade without the times that do not matter."""
    waves = [{**each, **dict.fromkeys(INFORMATIVE - {"completedAt"} & each.keys(), PAST)}
             for each in status.get("waves", ())]  # fmt: skip
    plain = {key: _without_times(each) for key, each in status.items() if key not in {"waves", "failures"}}
    if "lastProgress" in plain and "noProgress" not in (spec.get("timeouts") or {}):
        plain["lastProgress"] = FUTURE
    kept = {key: status[key] for key in ("failures",) if key in status}
    return {**plain, **kept, **({"waves": waves} if waves else {})}


def _without_times(value: Any) -> Any:  # Any: whatever a status holds
    if isinstance(value, dict):
        return {key: PAST if key in INFORMATIVE else _without_times(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    return value


def born(rank: int) -> str:
    """Return when the NodeUpgrade of this rank was created; the order is all that matters of it."""
    return timestamp(NOW - timedelta(days=9 - rank))


@lru_cache(maxsize=65536)
def aged(moment: str, seconds: int) -> str:
    """Return a time as it is seen after so many seconds."""
    at = datetime.fromisoformat(f"{moment}+00:00")
    return timestamp(at if _stays(at) else NOW - timedelta(seconds=rounded(NOW - at, seconds)))


def _stays(at: datetime) -> bool:
    """Report whether a time is too far away to matter more or less after a while."""
    return NOW - at > ANCIENT or at - NOW > timedelta(days=300)


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


def settled_value(value: Any, seconds: int) -> Any:  # Any: whatever is remembered
    """Return what is kept in memory as it is seen after so many seconds."""
    if isinstance(value, str) and type(value).__name__ == "str":
        return TIME.sub(lambda found: aged(found[1], seconds), value)
    if isinstance(value, datetime):
        return value if _stays(value) else NOW - timedelta(seconds=rounded(NOW - value, seconds))
    if isinstance(value, dict):
        return {key: settled_value(each, seconds) for key, each in sorted(value.items(), key=repr)}
    if isinstance(value, tuple):
        return tuple(settled_value(each, seconds) for each in value)
    if (names := getattr(type(value), "__dataclass_fields__", None)) is not None:
        return type(value)(**{name: settled_value(getattr(value, name), seconds) for name in names})
    return value
