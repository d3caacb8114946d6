"""A state of a world: objects in the API server, what the operator remembers, what the checker keeps in mind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nodeupgrade.api.json import Json
from tests.model.canonical import (
    Key,
    Object,
    Renaming,
    born,
    interned,
    node_of,
    runs_of_slots,
    settled,
    settled_value,
    shifted,
    written,
)
from tests.model.store import Store, Write

GHOST: Key = ("ghost", None, "ghost")
"""What the checker keeps in mind, beside the objects: which runs go on on the hosts, what failed, what was opened."""

LATE: Key = ("late", None, "late")
"""A write of a former leader that is still on its way."""

NOT_SERVED = frozenset({GHOST, LATE})
NO_GHOST: Json = {
    "metadata": {"name": "ghost"},
    "host": {},  # by node, the run that goes on on its host
    "failed": {},  # by UID of the NodeUpgrade and the Node: failures that must count
    "ended": {},  # by UID of the NodeUpgrade and wave: when its last run was judged
    "opened": {},  # likewise: waves that have rightly begun
    "gone": {},  # by name: Nodes and NodeUpgrades that were deleted and may come back
    "retries": 0,
}

Remembered: TypeAlias = tuple[Any, int]
"""What is kept in memory of one NodeUpgrade, and the number of its text."""


@dataclass(frozen=True, slots=True)
class State:
    """A state; two of them are the same if their keys are."""

    objects: Mapping[Key, Object]
    memory: Mapping[str, Remembered] = field(default_factory=dict)
    key: tuple[int, ...] = ()

    @property
    def ghost(self) -> Json:
        """What the checker keeps in mind."""
        return self.objects[GHOST].body

    def body(self, plural: str, name: str, namespace: str | None = None) -> Json | None:
        """Return one object, if it is there."""
        known = self.objects.get((plural, namespace, name))
        return None if known is None else known.body

    def all(self, plural: str) -> list[Json]:
        """Return all objects of a kind, by name."""
        return [known.body for key, known in sorted_items(self.objects) if key[0] == plural]


def sorted_items(objects: Mapping[Key, Object]) -> list[tuple[Key, Object]]:
    """Return objects in the order of their keys."""
    return sorted(objects.items(), key=lambda item: (item[0][0], item[0][1] or "", item[0][2]))


def make_state(objects: Mapping[Key, Object], memory: Mapping[str, Remembered]) -> State:
    """Return a state of canonical objects."""
    ordered = dict(sorted_items(objects))
    numbers = (known.number for known in ordered.values())
    kept = (number for name, (_, number) in sorted(memory.items()) for number in (number_of(name), number))
    return State(ordered, memory, (*numbers, 0, *kept))


_MEMORIES: dict[str, int] = {}


def number_of(memory: Any) -> int:
    """Return the number of what is remembered."""
    names = getattr(type(memory), "__dataclass_fields__", ())
    parts = [sorted(v) if isinstance(v := getattr(memory, name), set) else v for name in names]
    return _MEMORIES.setdefault(repr(parts or memory), len(_MEMORIES) + 1)


def settle(written_to: Mapping[Key, Object], memory: Mapping[str, Any], known: Mapping[str, Remembered]) -> State:
    """Return the state after a step: what it has written is canonical again.

    ``memory`` holds only what the step may have changed; of the rest, ``known`` is still true.
    """

    def used(node: str) -> set[str]:
        kept = (each.runs for each in written_to.values() if each.number >= 0 and node_of(each.body) == node)
        slots = (runs_of_slots(each.body, node) for key, each in written_to.items() if key[0] == UPGRADE)
        host = written_to[GHOST].body["host"].get(node)
        return {*set[str]().union(*kept, *slots), *([host] if host else [])}

    renaming, objects = Renaming(used), dict(written_to)
    for key, each in written_to.items():
        if each.number < 0:
            objects[key] = settled(key[0], each.body, renaming)
    if LATE in objects and "key" not in objects[LATE].body:
        del objects[LATE]
    _rank(objects)
    kept = dict(known)
    for name, value in memory.items():
        kept.pop(name, None)
        if value is not None:
            settled_one = settled_value(value, 1, lambda text: text)
            kept[name] = settled_one, number_of(settled_one)
    return make_state(objects, kept)


def _rank(objects: dict[Key, Object]) -> None:
    """Of the ages of NodeUpgrades, keep only their order."""
    upgrades = [
        (known.body["metadata"]["creationTimestamp"], key) for key, known in objects.items() if key[0] == UPGRADE
    ]
    for rank, (created, key) in enumerate(sorted(upgrades)):
        if created != (moment := born(rank)):
            body = objects[key].body
            body = {**body, "metadata": {**body["metadata"], "creationTimestamp": moment}}
            objects[key] = interned(UPGRADE, written(UPGRADE, body))


UPGRADE = "nodeupgrades"


def collect(store: Store) -> None:
    """Delete objects whose owners are all gone, as the garbage collector of a cluster does."""
    there = {each.body["metadata"].get("uid") for each in store.objects.values()}
    for key, each in [*store.objects.items()]:
        owners = each.body["metadata"].get("ownerReferences")
        if owners and not any(owner["uid"] in there for owner in owners):
            del store.objects[key]
            store.writes.append(Write(key, each.body, None, {"verb": "collect"}))


def later(state: State, seconds: int) -> State:
    """Return a state after nothing has happened for so many seconds."""
    objects = {key: shifted(key[0], each, seconds) for key, each in state.objects.items()}
    memory = {
        name: (value := settled_value(known, seconds, lambda text: text), number_of(value))
        for name, (known, _) in state.memory.items()
    }
    return make_state(objects, memory)
