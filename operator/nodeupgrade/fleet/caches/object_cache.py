"""A cache of the objects of one kind, fed by lists, watches and our own writes in any order.

Every method relies on one rule: resourceVersions of one kind are numbers that increase with every write. So an object
is never replaced by an older version of itself, and outdated input does not bring back a deleted one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.cluster.kube_api import WatchEvent, WatchEventType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """A change of a cached object; None stands for one that does not exist or cannot be parsed."""

    before: T | None
    after: T | None


@dataclass(frozen=True, slots=True)
class Reduced(Generic[T]):
    """One version of an object, reduced to what is cached; ``problem`` says why there is no view of it."""

    name: str
    uid: str
    version: int
    view: T | None
    problem: str


class ObjectCache(Generic[T]):
    """Objects by name, reduced to the fields that we need, so that thousands fit into little memory.

    Args:
        view: Reduces an object; an exception means that this version cannot parse it.

    Attributes:
        version: resourceVersion up to which the cache is complete.
        views: the objects that could be parsed. Copy it before you keep it.
        unreadable: why the others cannot be parsed.
    """

    def __init__(self, view: Callable[[Json], T]) -> None:
        self._view = view
        self._known: dict[str, tuple[str, int]] = {}
        self._gone: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}
        self._begun: tuple[Mapping[str, tuple[str, int]], Mapping[str, int], Mapping[str, int]] = {}, {}, {}
        self.version = 0
        self.views: dict[str, T] = {}
        self.unreadable: dict[str, str] = {}

    def reduce(self, body: Json) -> Reduced[T]:
        """Return an object in reduced form, without storing it."""
        name, uid, version = _marks(body)
        try:
            return Reduced(name, uid, version, self._view(body), "")
        except (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Reduced(name, uid, version, None, str(error) or type(error).__name__)

    def begin(self) -> None:
        """Take note of what a list that begins now overrides."""
        self._begun = dict(self._known), dict(self._gone), dict(self._forgotten)

    def replace(self, listed: Mapping[str, Reduced[T]], version: int) -> list[Delta[T]]:
        """Replace the cache by a complete list, given by name; objects missing from it are deleted.

        Objects that we have written since the list began stay. If it has older ones than were known by then, or none,
        the API server was restored from a backup: only the list counts.
        """
        known, gone, forgotten = self._begun
        for name, mark in known.items():
            if self._known.get(name) == mark and (name not in listed or listed[name].version < mark[1]):
                self._known[name] = mark[0], 0
        self._forgotten = {name: version for name, version in self._forgotten.items() if name not in forgotten}
        self._advance(version)
        there = {reduced.uid for reduced in listed.values()}
        # A list from before an object was created lacks it too, and the watch that follows reports its creation.
        self._gone = {uid: v for uid, v in self._gone.items() if uid not in gone and (uid in there or v > version)}
        stored = [delta for reduced in listed.values() for delta in self._store(reduced)]
        missing = [name for name, (_, known) in self._known.items() if name not in listed and known <= version]
        return stored + [self._drop(name) for name in missing]

    def apply(self, event: WatchEvent) -> list[Delta[T]]:
        """Apply an event of the watch that continues from ``version``."""
        name, uid, version = _marks(event.body)
        if version <= self.version:
            return []
        self._advance(version)
        match event.change:
            case WatchEventType.BOOKMARK:
                return []
            case WatchEventType.DELETED:
                self._gone.pop(uid, None)
                _, known = self._known.get(name, ("", version + 1))
                return [self._drop(name)] if known <= version else []
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                return self._store(self.reduce(event.body))
            case _:
                assert_never(event.change)

    def learn(self, body: Json) -> list[Delta[T]]:
        """Store the response to one of our own writes, unless the watch has already delivered it or something newer."""
        reduced = self.reduce(body)
        return self._store(reduced) if reduced.version > self.version else []

    def forget(self, name: str, uid: str | None = None) -> list[Delta[T]]:
        """Remove an object that is gone before the watch reports it; outdated input does not bring it back.

        Without ``uid``, this is the cached object of that name.
        """
        known, version = self._known.get(name, (uid, 0))
        if (gone := uid or known) is None:
            return []
        self._gone[gone] = version if known == gone else 0
        if name not in self._known or known != gone:
            return []
        self._forgotten[name] = max(version, self._forgotten.get(name, 0))
        return [self._drop(name)]

    def _advance(self, version: int) -> None:
        """Note that the cache is complete up to a version; nothing older comes any more."""
        self.version = version
        self._forgotten = {name: known for name, known in self._forgotten.items() if known > version}

    def _store(self, reduced: Reduced[T]) -> list[Delta[T]]:
        _, known = self._known.get(reduced.name, ("", self._forgotten.get(reduced.name, -1)))
        if reduced.uid in self._gone or known >= reduced.version:
            return []
        self._known[reduced.name] = reduced.uid, reduced.version
        before = self.views.pop(reduced.name, None)
        self.unreadable.pop(reduced.name, None)
        if reduced.view is None:
            self.unreadable[reduced.name] = reduced.problem
        else:
            self.views[reduced.name] = reduced.view
        return [Delta(before, reduced.view)]

    def _drop(self, name: str) -> Delta[T]:
        del self._known[name]
        self.unreadable.pop(name, None)
        return Delta(self.views.pop(name, None), None)


def _marks(body: Json) -> tuple[str, str, int]:
    """Return name, UID and resourceVersion of an object; a bookmark has only the last."""
    try:
        metadata = body["metadata"]
        return metadata.get("name", ""), metadata.get("uid", ""), int(metadata["resourceVersion"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MalformedObjectError("metadata", "it has no resourceVersion that is a number") from None
