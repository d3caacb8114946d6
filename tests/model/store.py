"""The API server of the model: that of ``tests.doubles.kube`` over a state's objects, which are shared and not copied.

It records what is written, so that a step that was killed in between is a part of what it wrote. It passes the contract
suite of a real API server (``tests/contract/kube``).
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import Event, InvalidError, Resource
from tests.doubles.kube import InMemoryKube
from tests.doubles.watch_log import Entry, WatchLog
from tests.model.canonical import NOT_SERVED, PRESENT, UID, Key, Object

LETTERS = {"nodes": "n", "nodeupgrades": "u", "nodeupgradetasks": "t", "pods": "p", "jobs": "j"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one object."""

    key: Key
    before: Json | None
    after: Json | None
    call: Json  # what was asked for, so that it can be asked for later


@dataclass
class Store(InMemoryKube):
    """The KubeApi port; nothing in it ever waits, and nobody changes what it serves."""

    clock: Callable[[], datetime] = lambda: PRESENT
    loaded: Mapping[Key, Object] = field(default_factory=dict)  # the objects of the state
    writes: list[Write] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # statuses that match no schema
    silent: bool = False  # whether it keeps no events, which decide nothing
    _call: Json = field(default_factory=dict)

    def load(self, objects: Mapping[Key, Object]) -> None:
        """Take up a state."""
        self.loaded, self.writes, self.refused, self._revision, self.log = objects, [], [], 1, WatchLog()
        self._objects = {key: known.body for key, known in objects.items() if key[0] not in NOT_SERVED}

    def object(self, key: Key) -> Object | None:
        """Return an object of the state if it has not been written since."""
        known = self.loaded.get(key)
        return known if known is not None and self._objects.get(key) is known.body else None

    def bodies(self) -> Mapping[Key, Json]:
        """Return all objects as they are now."""
        return self._objects

    async def emit_event(self, event: Event) -> bool:
        return self.silent or await super().emit_event(event)

    async def create(self, resource: Resource, body: Json) -> Json:
        self._call = {"verb": "create", "name": body["metadata"]["name"], "body": body}
        return await super().create(resource, body)

    async def merge(
        self,
        resource: Resource,
        name: str,
        patch: Json,
        *,
        resource_version: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Json:
        names = _named(None, resource_version)
        self._call = {"verb": "merge", "name": name, "body": patch, "manager": field_manager, "names": names}
        return await super().merge(
            resource, name, patch, resource_version=resource_version, field_manager=field_manager, dry_run=dry_run
        )

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        self._call = {"verb": "status", "name": name, "body": status, "names": _named(None, resource_version)}
        try:
            return await super().replace_status(resource, name, status, resource_version=resource_version)
        except InvalidError as error:
            self.refused.append(str(error))
            raise

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        self._call = {"verb": "delete", "name": name, "names": _named(uid, resource_version)}
        await super().delete(resource, name, uid=uid, resource_version=resource_version)

    async def collect_garbage(self) -> None:
        self._call = {"verb": "collect"}
        await super().collect_garbage()

    def _new_uid(self, key: Key) -> str:
        """Return the lowest UID that nothing refers to; tasks and pods have the same one each time."""
        number = re.search(r"\d*$", key[2])
        stem = f"{LETTERS.get(key[0], 'o')}{int((number[0] if number else '') or 0) % 100:02d}"
        if key[0] not in {"nodes", "nodeupgrades"}:
            return f"{stem}i00zz"
        used = set[str]().union(*(known.uids for known in self.loaded.values()), UID.findall(str(self._objects)))
        return next(uid for number in range(100) if (uid := f"{stem}i{number:02d}zz") not in used)

    def _served(self, body: Json) -> Json:
        return body

    def _store(self, key: Key, body: Json, verb: str) -> Json:
        self._revision += 1
        after = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        self._note(key, after)
        self._objects[key] = after
        return after

    def _remove(self, key: Key, verb: str) -> None:
        self._revision += 1
        self._note(key, None)
        del self._objects[key]

    def _note(self, key: Key, after: Json | None) -> None:
        before = self._objects.get(key)
        self.writes.append(Write(key, before, after, self._call))
        self.log.append(Entry(self._revision, key[0], key[1], before, after))


def _named(uid: str | None, resource_version: str | None) -> str:
    """Return what a write names as its precondition: a version, only an object, or nothing."""
    return "version" if resource_version else "object" if uid else ""


def done(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # as the coroutine says
    raise RuntimeError("it waits")
