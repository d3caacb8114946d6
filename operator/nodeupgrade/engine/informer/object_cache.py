"""What is known of all objects of one kind, from lists, watches and our own writes, whatever order they come in.

The rule behind every method: resourceVersions of one kind are numbers that grow with every write, so what is known
of an object never goes back to an older one, and what is gone does not come back with old news.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.ports.kube import WatchEvent, WatchEventType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """How an object changed in our eyes; None stands for one that is not there or cannot be read."""

    before: T | None
    after: T | None


@dataclass(frozen=True, slots=True)
class Reduced(Generic[T]):
    """What is kept of one state of an object; ``problem`` says why there is no view of it."""

    name: str
    uid: str
    version: int
    view: T | None
    problem: str


class ObjectCache(Generic[T]):
    """Objects by name, reduced to what we need of them, so that thousands fit into little memory.

    Args:
        view: Reduces an object; whatever it raises means that this version cannot read the object.

    Attributes:
        version: resourceVersion up to which everything is known.
        views: the readable objects. Copy it before you keep it.
        unreadable: why the others cannot be read.
    """

    def __init__(self, view: Callable[[Json], T]) -> None:
        self._view = view
        self._known: dict[str, tuple[str, int]] = {}
        self._gone: set[str] = set()
        self.version = 0
        self.views: dict[str, T] = {}
        self.unreadable: dict[str, str] = {}

    def reduce(self, body: Json) -> Reduced[T]:
        """Reduce an object without taking it over."""
        name, uid, version = _marks(body)
        try:
            return Reduced(name, uid, version, self._view(body), "")
        except (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Reduced(name, uid, version, None, str(error) or type(error).__name__)

    def replace(self, listed: Mapping[str, Reduced[T]], version: int) -> list[Delta[T]]:
        """Take over a complete list by name; objects that it lacks are gone, even if nobody told of their deletion.

        Objects that we have written since the list was made stay. A list that is older than what was known shows
        that the API server was restored from a backup: then the list is all that counts.
        """
        if version < self.version:
            self._known = {name: (uid, 0) for name, (uid, _) in self._known.items()}
            self._gone.clear()
        self.version = version
        self._gone &= {reduced.uid for reduced in listed.values()}
        stored = [delta for reduced in listed.values() for delta in self._store(reduced)]
        lost = [name for name, (_, known) in self._known.items() if name not in listed and known <= version]
        return stored + [self._drop(name) for name in lost]

    def apply(self, event: WatchEvent) -> list[Delta[T]]:
        """Take over an event of the watch that goes on from ``version``."""
        name, uid, version = _marks(event.body)
        if version <= self.version:
            return []
        self.version = version
        match event.change:
            case WatchEventType.BOOKMARK:
                return []
            case WatchEventType.DELETED:
                self._gone.discard(uid)
                _, known = self._known.get(name, ("", version + 1))
                return [self._drop(name)] if known <= version else []
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                return self._store(self.reduce(event.body))
            case _:
                assert_never(event.change)

    def learn(self, body: Json) -> list[Delta[T]]:
        """Take over what the API server answered to a write of ours, unless the watch has told more already."""
        reduced = self.reduce(body)
        return self._store(reduced) if reduced.version > self.version else []

    def forget(self, name: str, uid: str | None = None) -> list[Delta[T]]:
        """Take note that an object is gone before the watch tells; older news of it will not bring it back.

        Without ``uid``, the one that is known by that name is meant.
        """
        known, _ = self._known.get(name, (uid, 0))
        if (gone := uid or known) is not None:
            self._gone.add(gone)
        return [self._drop(name)] if name in self._known and known == gone else []

    def _store(self, reduced: Reduced[T]) -> list[Delta[T]]:
        _, known = self._known.get(reduced.name, ("", -1))
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
    """Read name, UID and resourceVersion; a bookmark has only the last."""
    try:
        metadata = body["metadata"]
        return metadata.get("name", ""), metadata.get("uid", ""), int(metadata["resourceVersion"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MalformedObjectError("metadata", "it has no resourceVersion that is a number") from None
