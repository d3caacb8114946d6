"""An API server over shared, never changed objects: a state of it is a dictionary, and a copy of it a snapshot.

As ``tests.doubles.kube``, which passes the contract suite of a real one, but several times as fast. It records what is
written, so that a step that was killed in between is a part of what it wrote.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.cluster.kube_api import (
    EVENTS,
    ConflictError,
    Event,
    NotFoundError,
    Page,
    RejectedError,
    Resource,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.doubles.kube import _has_fields, _has_labels, _record_manager
from tests.doubles.kube_schema import reject_misfits
from tests.model.canonical import PRESENT, UID, Key, Object

SUBRESOURCE = frozenset({"nodes", "pods", "nodeupgrades", "nodeupgradetasks"})
LETTERS = {"nodes": "n", "nodeupgrades": "u", "nodeupgradetasks": "t", "pods": "p", "jobs": "j"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one object."""

    key: Key
    before: Json | None
    after: Json | None
    call: Json  # what was asked for, so that it can be asked for later


@dataclass(slots=True)
class Store(TypedKube):
    """The KubeApi port; nothing in it ever waits."""

    objects: dict[Key, Object] = field(default_factory=dict)
    version: str = "v1.33.13"
    now: datetime = PRESENT
    writes: list[Write] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # statuses of NodeUpgrades that match no schema
    _revision: int = 1

    def load(self, objects: Mapping[Key, Object]) -> None:
        """Take up a state."""
        self.objects, self.writes, self.refused, self._revision = dict(objects), [], [], 1

    def utcnow(self) -> datetime:
        return self.now

    async def server_version(self) -> str:
        return self.version

    async def emit_event(self, event: Event) -> bool:
        return True

    async def get(self, resource: Resource, name: str) -> Json:
        return self._stored(resource, name)

    async def list(
        self, resource: Resource, *, labels: Mapping[str, str] | None = None, fields: Mapping[str, str] | None = None
    ) -> list[Json]:
        found = [
            (name, known.body)
            for (plural, namespace, name), known in self.objects.items()
            if plural == resource.plural and resource.namespace in {None, namespace}
        ]
        chosen = [each for each in found if _has_labels(each[1], labels) and _has_fields(each[1], fields)]
        return [body for _, body in sorted(chosen, key=lambda each: each[0])]

    async def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        yield Page(tuple(await self.list(resource, labels=labels)), str(self._revision))

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        for body in await self.list(resource, labels=labels, fields=fields):
            yield WatchEvent(WatchEventType.ADDED, body)

    async def create(self, resource: Resource, body: Json) -> Json:
        if resource.plural == EVENTS.plural:
            return body
        name = body["metadata"]["name"]
        key = key_of(resource, name)
        if key in self.objects:
            raise ConflictError(f"cannot create {resource.plural} {name} because it exists already")
        made = {k: v for k, v in body.items() if k != "status" or resource.plural not in SUBRESOURCE}
        self._check(resource, made)
        made["metadata"] = {
            **body["metadata"],
            "uid": self.new_uid(resource.plural, name),
            "generation": 1,
            "creationTimestamp": timestamp(self.now),
        }
        return self._put(key, None, made, {"verb": "create", "name": name, "body": body})

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
        before = self._stored(resource, name, resource_version)
        after: Json = patched(before, patch)
        after["metadata"] = {**after["metadata"]}
        if resource.plural in SUBRESOURCE:
            after.pop("status", None)
            after |= {"status": before["status"]} if "status" in before else {}
        self._check(resource, after)
        if after == before:
            return before
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        if field_manager or resource.plural == "nodes":
            _record_manager(before, after, field_manager or "unnamed")
        if dry_run:
            return after
        call = {"verb": "merge", "name": name, "body": patch, "manager": field_manager, "held": bool(resource_version)}
        key = key_of(resource, name)
        if "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers"):
            return self._put(key, before, None, call) or after
        return self._put(key, before, after, call)

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        before = self._stored(resource, name, resource_version)
        if before.get("status") == status:
            return before
        after = {**before, "status": status}
        try:
            self._check(resource, after)
        except RejectedError as error:
            self.refused.append(str(error))
            raise
        call = {"verb": "status", "name": name, "body": status, "held": bool(resource_version)}
        return self._put(key_of(resource, name), before, after, call)

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        before = self._stored(resource, name, resource_version)
        conditions = before.get("status", {}).get("conditions", ())
        others = [each for each in conditions if each["type"] != kind]
        own: Json = next((each for each in conditions if each["type"] == kind), {})
        after = others if condition is None else [*others, {**own, "type": kind, **condition}]
        return await self.replace_status(resource, name, {**before.get("status", {}), "conditions": after})

    async def delete(self, resource: Resource, name: str, *, uid: str | None = None) -> None:
        key = key_of(resource, name)
        if (known := self.objects.get(key)) is None:
            return
        body, call = known.body, {"verb": "delete", "name": name, "held": uid is not None}
        if uid is not None and body["metadata"]["uid"] != uid:
            raise ConflictError(f"cannot delete {resource.plural} {name} because its UID is not {uid}")
        if not body["metadata"].get("finalizers"):
            self._put(key, body, None, call)
        elif "deletionTimestamp" not in body["metadata"]:
            metadata = {"deletionTimestamp": timestamp(self.now), **body["metadata"]}
            self._put(key, body, {**body, "metadata": metadata}, call)

    def new_uid(self, plural: str, name: str) -> str:
        """Return the lowest UID that nothing refers to; tasks and pods have the same one each time."""
        number = re.search(r"\d*$", name)
        stem = f"{LETTERS.get(plural, 'o')}{int((number[0] if number else '') or 0) % 100:02d}"
        if plural not in {"nodes", "nodeupgrades"}:
            return f"{stem}i00zz"
        used = set[str]().union(*(known.uids or UID.findall(str(known.body)) for known in self.objects.values()))
        return next(uid for number in range(100) if (uid := f"{stem}i{number:02d}zz") not in used)

    def _check(self, resource: Resource, body: Json) -> None:
        if resource.plural in {"nodeupgrades", "nodeupgradetasks"}:
            reject_misfits(resource, body)

    def _stored(self, resource: Resource, name: str, resource_version: str | None = None) -> Json:
        if (known := self.objects.get(key_of(resource, name))) is None:
            raise NotFoundError(f"cannot find {resource.plural} {name}")
        if resource_version not in {None, known.body["metadata"]["resourceVersion"]}:
            raise ConflictError(f"cannot write {resource.plural} {name} because it has changed meanwhile")
        return known.body

    def _put(self, key: Key, before: Json | None, after: Json | None, call: Json) -> Json:
        self._revision += 1
        if after is None:
            self.objects.pop(key, None)
        else:
            after = {**after, "metadata": {**after["metadata"], "resourceVersion": str(self._revision)}}
            self.objects[key] = Object(after)
        self.writes.append(Write(key, before, after, call))
        return after or {}


def key_of(resource: Resource, name: str) -> Key:
    """Return where an object is."""
    return resource.plural, resource.namespace, name


def patched(target: Json, patch: Json) -> Json:
    """Apply a merge patch; what it does not change is shared."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            held = result.get(name)
            result[name] = patched(held if isinstance(held, dict) else {}, value)
        else:
            result[name] = value
    return result


def done(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # as the coroutine says
    raise RuntimeError("it waits")
