"""What is known never goes back, whatever order lists, events and answers come in, and in the end it is the truth."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.cluster.kube_api import WatchEvent, WatchEventType
from nodeupgrade.fleet.caches.object_cache import Delta, ObjectCache


def body(name: str, version: int, uid: str | None = None) -> Json:
    return {"metadata": {"name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": str(version)}}


def bookmark(version: int) -> WatchEvent:
    return WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": str(version)}})


def view(found: Json) -> tuple[str, int]:
    return found["metadata"]["uid"], int(found["metadata"]["resourceVersion"])


class World:
    """A server with a history, a cache that hears of it late, and answers to writes that arrive when they like."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.events: list[WatchEvent] = []
        self.answers: list[Json] = []
        self.page: tuple[dict[str, Json], int] | None = None
        self.revision, self.told, self.uids = 0, 0, itertools.count()
        self.cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
        self.shown: dict[str, int] = {}
        self.buried: set[str] = set()

    def write(self, name: str) -> None:
        self.revision += 1
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{next(self.uids)}"
        self.objects[name] = body(name, self.revision, uid)
        self.events.append(WatchEvent(WatchEventType.MODIFIED if known else WatchEventType.ADDED, self.objects[name]))
        self.answers.append(self.objects[name])

    def delete(self, name: str) -> None:
        if (known := self.objects.pop(name, None)) is not None:
            self.revision += 1
            gone = body(name, self.revision, known["metadata"]["uid"])
            self.events.append(WatchEvent(WatchEventType.DELETED, gone))

    def delete_and_know(self, name: str) -> None:
        if (known := self.objects.get(name)) is not None:
            uid = known["metadata"]["uid"]
            if self.cache.views.get(name, ("", 0))[0] == uid:
                self.buried.add(uid)
            self.delete(name)
            self.cache.forget(name, uid)
            assert self.cache.views.get(name, ("", 0))[0] != uid

    def deliver(self, _name: str) -> None:
        if self.page is None and self.told < len(self.events):
            self.cache.apply(self.events[self.told])
            self.told += 1

    def answer(self, name: str) -> None:
        if self.answers:
            answer = self.answers.pop(ord(name) % len(self.answers))
            self.cache.learn(answer)

    def begin_list(self, _name: str) -> None:
        if self.page is None:
            self.cache.begin()
            self.page = dict(self.objects), self.revision

    def end_list(self, _name: str) -> None:
        if self.page is not None:
            found, version = self.page
            self.cache.replace({name: self.cache.reduce(found[name]) for name in found}, version)
            self.page, self.told = None, sum(int(e.body["metadata"]["resourceVersion"]) <= version for e in self.events)

    def check(self) -> None:
        assert not self.buried & {uid for uid, _ in self.cache.views.values()}, "a deleted object is back"
        for name, (_, version) in self.cache.views.items():
            assert version >= self.shown.get(name, 0), f"{name} went back"
        self.shown |= {name: version for name, (_, version) in self.cache.views.items()}

    def settle(self) -> None:
        self.end_list("")
        while self.told < len(self.events):
            self.deliver("")
            self.check()


ACTIONS = [
    World.write, World.write, World.delete, World.delete_and_know, World.deliver, World.deliver, World.answer,
    World.begin_list, World.end_list,
]  # fmt: skip


LISTED_BEFORE_IT_WAS_MADE = [
    (action, "a") for action in (World.begin_list, World.write, World.write, World.answer, World.delete_and_know)
]
ANOTHER_OF_ITS_NAME_BEFORE = [
    (action, "a") for action in (World.write, World.delete, World.write, World.answer, World.delete_and_know)
]


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from("abc")), max_size=60))
@example(LISTED_BEFORE_IT_WAS_MADE)
@example(ANOTHER_OF_ITS_NAME_BEFORE)
def test_never_back_and_right_in_the_end(steps: list[tuple[object, str]]) -> None:
    world = World()
    for action, name in steps:
        action(world, name)  # type: ignore[operator]
        world.check()
    world.settle()
    assert world.cache.views == {name: view(found) for name, found in world.objects.items()}


def test_a_list_tells_of_deletions_that_nobody_told() -> None:
    cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
    cache.replace({"a": cache.reduce(body("a", 1)), "b": cache.reduce(body("b", 2))}, 2)
    deltas = cache.replace({"b": cache.reduce(body("b", 2))}, 9)
    assert deltas == [Delta(("uid-of-a", 1), None)]
    assert cache.apply(WatchEvent(WatchEventType.MODIFIED, body("a", 5))) == []
    assert set(cache.views) == {"b"}


def test_after_a_restored_backup_the_list_counts() -> None:
    cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
    cache.replace({"a": cache.reduce(body("a", 50)), "b": cache.reduce(body("b", 60))}, 60)
    cache.begin()
    cache.replace({"a": cache.reduce(body("a", 7))}, 9)
    assert cache.views == {"a": ("uid-of-a", 7)}
    cache.apply(WatchEvent(WatchEventType.MODIFIED, body("a", 10)))
    assert cache.views == {"a": ("uid-of-a", 10)}


def test_it_counts_although_the_api_server_has_come_further_since() -> None:
    cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
    names = "abcd"
    cache.replace({name: cache.reduce(body(name, 5)) for name in names}, 9)
    for name in "abc":
        cache.learn(body(name, 60))
    cache.forget("c", "uid-of-c")
    cache.forget("d", None)
    cache.begin()
    cache.learn(body("e", 80))
    cache.replace({name: cache.reduce(body(name, 5)) for name in "acd"}, 70)
    assert cache.views == {**{name: (f"uid-of-{name}", 5) for name in "acd"}, "e": ("uid-of-e", 80)}


def test_bookmarks_only_say_how_far_it_is() -> None:
    cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
    assert cache.apply(bookmark(7)) == []
    assert (cache.version, cache.views) == (7, {})


def test_what_cannot_be_read_is_told_and_stands_in_nobodys_way() -> None:
    def picky(found: Json) -> str:
        if "spec" not in found:
            raise MalformedObjectError("spec", "it is missing")
        return str(found["spec"])

    cache: ObjectCache[str] = ObjectCache(picky)
    cache.apply(WatchEvent(WatchEventType.ADDED, {**body("a", 1), "spec": "fine"}))
    assert cache.apply(WatchEvent(WatchEventType.MODIFIED, body("a", 2))) == [Delta("fine", None)]
    cache.apply(WatchEvent(WatchEventType.ADDED, {**body("b", 3), "spec": "fine"}))
    assert cache.views == {"b": "fine"}
    assert cache.unreadable == {"a": "cannot read spec because it is missing"}
    assert cache.apply(WatchEvent(WatchEventType.MODIFIED, {**body("a", 4), "spec": "again"})) == [Delta(None, "again")]
    assert cache.unreadable == {}


@pytest.mark.parametrize("metadata", [None, {}, {"resourceVersion": "abc"}, {"resourceVersion": None}, []])
def test_a_version_that_is_no_number_is_no_version(metadata: object) -> None:
    cache: ObjectCache[tuple[str, int]] = ObjectCache(view)
    with pytest.raises(MalformedObjectError, match="resourceVersion"):
        cache.apply(WatchEvent(WatchEventType.ADDED, {"metadata": metadata}))
