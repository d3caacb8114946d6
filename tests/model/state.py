"""A state of a world: objects in the API server, what the operator remembers, what the checker keeps in mind."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nodeupgrade.api.json import Json
from tests.model.canonical import (
    GHOST,
    LATE,
    NUMBERS,
    OBJECTS,
    UPGRADE,
    Key,
    Object,
    Renaming,
    born,
    forget_objects,
    interned,
    node_of,
    runs_of_slots,
    settled,
    settled_value,
    written,
)

NO_GHOST: Json = {
    "metadata": {"name": "ghost"},
    "host": {},  # by node, the run that goes on on its host
    "untold": {},  # by node, the run on its host whose task was deleted
    "lost": {},  # by node, the run on its host that was given up because its Node was gone
    "failed": {},  # by UID of the NodeUpgrade and the Node: failures that must count
    "ended": {},  # by UID of the NodeUpgrade and wave: when its last run was judged
    "opened": {},  # likewise: waves that have rightly begun
    "gone": {},  # by name: Nodes and NodeUpgrades that were deleted and may come back
    "retries": 0,
}

Change: TypeAlias = Object | Json | None
"""What has become of an object: as it is seen from the next step, as it was written, or nothing."""


class Remembered:
    """What is kept in memory of one NodeUpgrade, never changed."""

    __slots__ = ("_later", "name", "number", "value")

    def __init__(self, name: str, value: Any, number: int) -> None:
        self.name, self.value, self.number = name, value, number
        self._later = dict[int, Remembered]()

    def later(self, seconds: int) -> "Remembered":
        """Return it after so many seconds."""
        if (known := self._later.get(seconds)) is None:
            known = self._later[seconds] = remembered_as(self.name, settled_value(self.value, seconds))
        return known


_MEMORIES = dict[tuple[str, str], Remembered]()
_REMEMBERED = dict[int, Remembered]()


def remembered_as(name: str, value: Any) -> Remembered:
    """Return what is kept of a NodeUpgrade, the same for equal ones."""
    text = text_of(value)
    if (known := _MEMORIES.get((name, text))) is None:
        known = _MEMORIES[name, text] = Remembered(name, value, next(NUMBERS))
        _REMEMBERED[known.number] = known
    return known


def text_of(memory: Any) -> str:
    """Return a text that differs for different memories."""
    names = getattr(type(memory), "__dataclass_fields__", ())
    return repr([sorted(v) if isinstance(v := getattr(memory, name), set) else v for name in names])


def forget() -> None:
    """Forget everything that states share, so that memory is bounded; no state of before can be gone on from."""
    forget_objects()
    _MEMORIES.clear()
    _REMEMBERED.clear()


@dataclass(frozen=True, slots=True)
class State:
    """A state; two of them are the same if their keys are."""

    objects: Mapping[Key, Object]
    memory: Mapping[str, Remembered] = field(default_factory=dict)
    key: bytes = b""  # the numbers of the objects, 0, and those of what is remembered

    @property
    def ghost(self) -> Json:
        """What the checker keeps in mind."""
        return self.objects[GHOST].body

    @property
    def served(self) -> bytes:
        """What an operator sees of the state; the objects that are not served come first."""
        return self.key[4 * (1 + len(self.late)) : 4 * len(self.objects)]

    @property
    def late(self) -> list[Key]:
        """The writes of a former leader that are still on their way, in the order in which it sends them."""
        return [key for key in self.objects if key[0] == LATE]

    def body(self, plural: str, name: str, namespace: str | None = None) -> Json | None:
        """Return one object, if it is there."""
        known = self.objects.get((plural, namespace, name))
        return None if known is None else known.body

    def all(self, plural: str) -> list[Json]:
        """Return all objects of a kind, by name."""
        return [known.body for key, known in self.objects.items() if key[0] == plural]


def make_state(objects: Mapping[Key, Object], memory: Mapping[str, Remembered]) -> State:
    """Return a state of canonical objects."""
    ordered = sorted(objects.values(), key=_place)
    kept = sorted(memory.items())
    numbers = [*(each.number for each in ordered), 0, *(each.number for _, each in kept)]
    return State({each.key: each for each in ordered}, dict(kept), array("I", numbers).tobytes())


def _place(known: Object) -> tuple[str, str, str]:
    return known.place


def unpacked(key: bytes) -> State:
    """Return the state with this key."""
    numbers = array("I", key)
    end = numbers.index(0)
    objects, kept = (OBJECTS[n] for n in numbers[:end]), (_REMEMBERED[n] for n in numbers[end + 1 :])
    return State({each.key: each for each in objects}, {each.name: each for each in kept}, key)


def settle(state: State, changes: Mapping[Key, Change], memory: Mapping[str, Remembered | None]) -> State:
    """Return the state after a step: what it has written is canonical again.

    ``memory`` holds only what the step may have changed, None for what is forgotten.
    """
    if not changes and all(state.memory.get(name) is each for name, each in memory.items()):
        return state

    def used(node: str) -> set[str]:
        unchanged = (each for key, each in state.objects.items() if key not in changes)
        kept = (each.runs for each in unchanged if node_of(each.body) == node)
        slots = (runs_of_slots(body, node) for key, body in bodies.items() if key[0] == UPGRADE)
        host = bodies[GHOST]["host"].get(node)
        return {*set[str]().union(*kept, *slots), *([host] if host else [])}

    renaming, objects, bodies = Renaming(used), dict(state.objects), {k: each.body for k, each in state.objects.items()}
    for key, each in changes.items():
        bodies.pop(key, None)
        objects.pop(key, None)
        if each is not None:
            bodies[key] = each.body if isinstance(each, Object) else each
    for key, each in sorted(changes.items()):
        if each is not None:
            objects[key] = each if isinstance(each, Object) else settled(key, each, renaming)
    if any(key[0] == UPGRADE and (each is None or key not in state.objects) for key, each in changes.items()):
        _rank(objects)
    kept = {**state.memory, **memory}
    return make_state(objects, {name: each for name, each in kept.items() if each is not None})


def _rank(objects: dict[Key, Object]) -> None:
    """Of the ages of NodeUpgrades, keep only their order."""
    upgrades = [
        (known.body["metadata"]["creationTimestamp"], key) for key, known in objects.items() if key[0] == UPGRADE
    ]
    for rank, (created, key) in enumerate(sorted(upgrades)):
        if created != (moment := born(rank)):
            body = objects[key].body
            body = {**body, "metadata": {**body["metadata"], "creationTimestamp": moment}}
            objects[key] = interned(key, written(UPGRADE, body))


def later(state: State, seconds: int) -> State:
    """Return a state after nothing has happened for so many seconds."""
    objects = {key: each.shifted(seconds) for key, each in state.objects.items()}
    return make_state(objects, {name: each.later(seconds) for name, each in state.memory.items()})
