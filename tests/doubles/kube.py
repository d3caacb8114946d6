"""An in-memory API server: resource versions, conflicts, finalizers, status subresource, schemas. No defaults, no RBAC.

It is trusted because it passes the same contract suite as a real kube-apiserver.
"""

import contextlib
import marshal
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar, cast

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.cluster.kube_api import (
    ConflictError,
    ExpiredError,
    NotFoundError,
    Page,
    Resource,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.doubles.kube_schema import reject_misfits
from tests.doubles.watch_log import Entry, WatchLog

UNNAMED = "unnamed"
"""The manager of changes to Nodes by a client that names none."""

_STATUS_SUBRESOURCE = frozenset({"nodes", "pods", "nodeupgrades", "nodeupgradetasks"})

Key: TypeAlias = tuple[str, str | None, str]
"""Plural, namespace, name."""


@dataclass(slots=True)
class InMemoryKube(TypedKube):
    """The KubeApi port over a dictionary."""

    version: str = "v1.33.13"  # the version that it reports
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    # called with verb and object name before each write; may raise to simulate a crash or refusal
    before_write: Callable[[str, str], None] = lambda _verb, _name: None
    # called likewise after each write, before the response; may raise to simulate a lost response
    after_write: Callable[[str, str], None] = lambda _verb, _name: None
    page_size: int = 500  # objects per page of a list
    # what watches follow; tests drop watches and compact its history here
    log: WatchLog = field(default_factory=WatchLog)
    # whether to reject what does not match our CRDs; without it, the CRDs count as another version's
    schemas: bool = True
    # verbs with the plural of a resource that a review of the caller's permissions denies
    forbidden: frozenset[tuple[str, str]] = frozenset()
    _objects: dict[Key, Json] = field(default_factory=dict)
    _revision: int = 0

    def utcnow(self) -> datetime:
        """Wall-clock time, UTC."""
        return self.clock()

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object."""
        return self._served(self._stored(resource, name))

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        """List all matching objects, sorted by name."""
        found = [
            body
            for (plural, namespace, _), body in sorted(self._objects.items(), key=lambda item: item[0][2])
            if plural == resource.plural and resource.namespace in {None, namespace}
        ]
        return [self._served(body) for body in found if _has_labels(body, labels) and _has_fields(body, fields)]

    async def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """List all objects page by page, as they are now, even if they change in between."""
        revision, found = self._revision, await self.list(resource, labels=labels)
        for start in range(0, len(found) or 1, self.page_size):
            if start and revision < self.log.compacted:
                raise ExpiredError(f"cannot list {resource.plural} because revision {revision} is forgotten")
            yield Page(tuple(found[start : start + self.page_size]), str(revision))

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch all matching objects."""
        since = int(resource_version or self._revision)
        if not resource_version:
            for body in await self.list(resource, labels=labels, fields=fields):
                yield WatchEvent(WatchEventType.ADDED, body)
        events = self.log.follow(
            resource,
            since,
            lambda: self._revision,
            lambda body: _has_labels(body, labels) and _has_fields(body, fields),
        )
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object; where status is a subresource, its status is dropped."""
        name = body["metadata"]["name"]
        self.before_write("create", name)
        key = _key(resource, name)
        if key in self._objects:
            raise ConflictError(f"cannot create {resource.plural} {name} because it exists already")
        created = copied(body)
        if resource.plural in _STATUS_SUBRESOURCE:
            created.pop("status", None)
        self._check(resource, created)
        created["metadata"] |= {
            "uid": self._new_uid(key),
            "generation": 1,
            "creationTimestamp": timestamp(self.clock().replace(microsecond=0)),
        }
        return self._store(key, created, "create")

    async def try_create(self, resource: Resource, body: Json) -> Json:
        """Check an object as create does, and store nothing."""
        name = body["metadata"]["name"]
        self.before_write("create", name)
        self._check(resource, body)
        return copied(body)

    async def may(self, verb: str, resource: Resource) -> bool:
        """Report whether nobody has forbidden it."""
        return (verb, resource.plural) not in self.forbidden

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
        """Apply a merge patch; the generation grows when the spec changes."""
        if not dry_run:
            self.before_write("merge", name)
        before = self._stored(resource, name, resource_version)
        after: Json = merged(before, patch)
        if resource.plural in _STATUS_SUBRESOURCE:
            after.pop("status", None)
            after |= {"status": before["status"]} if "status" in before else {}
        self._check(resource, after)
        if after == before:
            return self._served(before)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if field_manager or resource.plural == "nodes":
            _record_manager(before, after, field_manager or UNNAMED)
        if dry_run:
            return after
        key = _key(resource, name)
        if "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers"):
            self._remove(key, "merge")
            return after
        return self._store(key, after, "merge")

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace the status and nothing else."""
        self.before_write("status", name)
        before = self._stored(resource, name, resource_version)
        if before.get("status") == status:
            return self._served(before)
        after = {**before, "status": copied(status)}
        self._check(resource, after)
        return self._store(_key(resource, name), after, "status")

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        """Set or remove one condition."""
        self.before_write("condition", name)
        before = self._stored(resource, name, resource_version)
        conditions = before.get("status", {}).get("conditions", ())
        others = [each for each in conditions if each["type"] != kind]
        own: Json = next((each for each in conditions if each["type"] == kind), {})
        after = others if condition is None else [*others, {**own, "type": kind, **condition}]
        return await self.replace_status(resource, name, {**before.get("status", {}), "conditions": after})

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Delete an object, or mark it as being deleted while finalizers hold it."""
        self.before_write("delete", name)
        key = _key(resource, name)
        if (body := self._objects.get(key)) is None:
            return
        if uid is not None and body["metadata"]["uid"] != uid:
            raise ConflictError(f"cannot delete {resource.plural} {name} because its UID is not {uid}")
        self._stored(resource, name, resource_version)
        if body["metadata"].get("finalizers"):
            metadata = {"deletionTimestamp": timestamp(self.clock().replace(microsecond=0)), **body["metadata"]}
            self._store(key, {**body, "metadata": metadata}, "delete")
            return
        self._remove(key, "delete")

    async def collect_garbage(self) -> None:
        """Delete the objects whose owners are gone, as the controller manager does."""
        alive = {body["metadata"].get("uid") for body in self._objects.values()}
        for key, body in list(self._objects.items()):
            owners = body["metadata"].get("ownerReferences") or ()
            if owners and not any(owner["uid"] in alive for owner in owners):
                self._remove(key, "collect")

    async def server_version(self) -> str:
        """The API server's version."""
        return self.version

    def _new_uid(self, key: Key) -> str:
        del key
        return str(uuid.uuid4())

    def _served(self, body: Json) -> Json:
        """Return what a client gets of a stored object: a copy, which it may change."""
        return copied(body)

    def _check(self, resource: Resource, body: Json) -> None:
        if self.schemas:
            reject_misfits(resource, body)

    def _stored(self, resource: Resource, name: str, resource_version: str | None = None) -> Json:
        body = self._objects.get(_key(resource, name))
        if body is None:
            raise NotFoundError(f"cannot find {resource.plural} {name}")
        if resource_version not in {None, body["metadata"]["resourceVersion"]}:
            raise ConflictError(f"cannot write {resource.plural} {name} because it has changed meanwhile")
        return body

    def _store(self, key: Key, body: Json, verb: str) -> Json:
        self._revision += 1
        stored = copied(body)
        stored["metadata"]["resourceVersion"] = str(self._revision)
        before, self._objects[key] = self._objects.get(key), stored
        self.log.append(Entry(self._revision, key[0], key[1], before, stored))
        self.after_write(verb, key[2])
        return self._served(stored)

    def _remove(self, key: Key, verb: str) -> None:
        self._revision += 1
        self.log.append(Entry(self._revision, key[0], key[1], self._objects.pop(key), None))
        self.after_write(verb, key[2])


T = TypeVar("T")


def copied(value: T) -> T:
    """Copy JSON, many times as fast as ``copy.deepcopy``; what it holds twice, the copy holds as two."""
    written = marshal.dumps(cast("Any", value), _WITHOUT_REFERENCES)
    return cast("T", marshal.loads(written))  # noqa: S302 - what it has just written itself


_WITHOUT_REFERENCES = 2
"""The version of marshal's format that has none."""


def merged(target: Any, patch: Any) -> Any:
    """Apply an RFC 7386 merge patch to a copy."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = copied(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _record_manager(before: Json, after: Json, manager: str) -> None:
    """Record the field manager of annotations and of cordons, the only fields whose managers our code reads."""
    old, new = _owned(before), _owned(after)
    changed = {field for field in {*old, *new} if old.get(field) != new.get(field)}
    managers = {entry["manager"]: _fields(entry["fieldsV1"]) for entry in before["metadata"].get("managedFields") or ()}
    managers = {who: fields - changed for who, fields in managers.items()}
    managers[manager] = managers.get(manager, set()) | (changed & set(new))
    after["metadata"]["managedFields"] = [_managed(who, fields) for who, fields in managers.items() if fields]


_CORDON = "unschedulable"


def _owned(body: Json) -> dict[str, Any]:
    """Return the fields whose managers are recorded, by name; an annotation's name contains a slash."""
    cordon = {_CORDON: True} if _CORDON in body.get("spec", {}) else {}
    return {**(body["metadata"].get("annotations") or {}), **cordon}


def _fields(owned: Json) -> set[str]:
    names = {*owned.get("f:metadata", {}).get("f:annotations", {}), *owned.get("f:spec", {})}
    return {name.removeprefix("f:") for name in names}


def _managed(manager: str, owned: set[str]) -> Json:
    annotations: Json = {f"f:{name}": {} for name in sorted(owned - {_CORDON})}
    fields: Json = {"f:metadata": {"f:annotations": annotations}} if annotations else {}
    fields |= {"f:spec": {f"f:{_CORDON}": {}}} if _CORDON in owned else {}
    return {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}


def _key(resource: Resource, name: str) -> Key:
    return resource.plural, resource.namespace, name


def _has_labels(body: Json, labels: Mapping[str, str] | None) -> bool:
    present = body["metadata"].get("labels") or {}
    return all(present.get(key) == value for key, value in (labels or {}).items())


def _has_fields(body: Json, fields: Mapping[str, str] | None) -> bool:
    for path, expected in (fields or {}).items():
        value: Any = body
        for part in path.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        if value != expected:
            return False
    return True
