"""CRI-O's files while they are changed: power fails, or the executor is killed, between any two system calls.

A starting CRI-O deletes a container whose file it cannot read, so that at every moment each file on the disk must be
exactly the old one or exactly the new one. After a kill, repeating the change completes it and leaves nothing behind.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.names_beside import UNFINISHED
from nodeupgrade.node.runtimes.crio.ended_records import EndedRecords
from nodeupgrade.node.runtimes.crio.hash_store import SpecificationStore
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.contract.node.crio_storage import go_json, specification
from tests.doubles.node import Crash
from tests.doubles.node.storage.disk import ModelDisk

STORAGE = PurePosixPath("/var/lib/containers/storage/overlay-containers")
OLD, NEW = StoredHashes(container=HashValue("aaaa0000")), StoredHashes(container=HashValue("b1"))
ANNOTATIONS = {"io.kubernetes.container.hash": "aaaa0000"}
IMITATIONS = ('"io.kubernetes.container.hash":"aaaa0000"', '"io.kubernetes.container.hash":"b1"')
"""What the author of a pod wrote in its environment."""
IDS = [ContainerId("c1"), ContainerId("c2")]
RUNS, ENDED = (go_json({"status": status, "initPid": 7, "initStartTime": "70"} | more).encode() for status, more in (
    ("running", {}), ("stopped", {"exitCode": 255}),
))  # fmt: skip
POD = ContainerId("s")
"""Both containers share the PIDs of its process."""


def config(container_id: str) -> str:
    return f"{STORAGE}/{container_id}/userdata/config.json"


def state(container_id: str) -> str:
    return f"{STORAGE}/{container_id}/userdata/state.json"


def marker() -> str:
    return f"{STORAGE}/{POD}/userdata/stopped"


class Storage:
    """The storage of two containers of a pod, and how far a change has come."""

    def __init__(self) -> None:
        self.disk = ModelDisk()
        self.store = SpecificationStore(HostFiles(disk=self.disk), lambda: STORAGE)
        for container_id in IDS:
            made = specification(container_id, ANNOTATIONS, sandbox=POD, env=IMITATIONS)
            self.disk.put(config(container_id), go_json(made, indent=True).encode())
            self.disk.put(state(container_id), RUNS)
        self.disk.put(state(POD), RUNS)
        self.images = list(self.store.before_images(IDS).values())
        self.calls = 0

    def die_at(self, number: int) -> None:
        """Kill whoever makes this system call."""

        def passing(_call: str, _path: str) -> None:
            self.calls += 1
            if self.calls == number:
                raise Crash

        self.disk.passing = passing


def rewritten(storage: Storage) -> None:
    storage.store.rewrite([(image, NEW) for image in storage.images])


def restored(storage: Storage) -> None:
    for image in storage.images:
        storage.store.restore(image)


def reinstated(storage: Storage) -> None:
    ended = EndedRecords(storage.store, lambda _process: True)
    for image in ended.taken_for_ended(storage.images):
        ended.put_back(image)


def fresh() -> Storage:
    return Storage()


def after_rewriting() -> Storage:
    storage = Storage()
    rewritten(storage)
    return storage


def after_an_error() -> Storage:
    storage = Storage()
    for identity in (*IDS, POD):
        storage.disk.put(state(identity), ENDED)
    storage.disk.put(marker(), b"")
    return storage


def test_what_has_ended_since_somebody_looked_is_rightly_taken_for_ended() -> None:
    storage = after_an_error()

    assert set(EndedRecords(storage.store, lambda _process: True).taken_for_ended(storage.images)) == {*storage.images}
    assert EndedRecords(storage.store, lambda _process: False).taken_for_ended(storage.images) == ()


CHANGES = pytest.mark.parametrize(
    ("make", "change"),
    [(fresh, rewritten), (after_rewriting, restored), (after_an_error, reinstated)],
    ids=["rewrite", "restore", "reinstate"],
)


def files(storage: Storage) -> dict[str, bytes | None]:
    paths = (*(path for i in IDS for path in (config(i), state(i))), state(POD), marker())
    return {path: storage.disk.content(path) for path in paths}


def torn(make: Callable[[], Storage], change: Callable[[Storage], None]) -> tuple[int, set[str]]:
    """Cut the power before every system call; return their number, and the files that may be neither old nor new."""
    storage = make()
    before = files(storage)
    whole = make()
    change(whole)
    after, found = files(whole), set[str]()

    def passing(_call: str, _path: str) -> None:
        storage.calls += 1
        for image in storage.disk.after_power_cut():
            left = {path: data for path, data, _ in image}
            found.update(path for path in before if left.get(path) not in {before[path], after[path]})

    storage.disk.passing = passing
    change(storage)
    return storage.calls, found


@CHANGES
def test_power_fails_between_any_two_system_calls(
    make: Callable[[], Storage], change: Callable[[Storage], None]
) -> None:
    calls, found = torn(make, change)

    assert found == set()
    assert calls > 10


@CHANGES
def test_what_is_renamed_before_it_is_synchronised_would_be_missed(
    make: Callable[[], Storage], change: Callable[[Storage], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(ModelDisk, "fsync", lambda _disk, _descriptor: None)

    assert torn(make, change)[1] != set()


@CHANGES
def test_killed_between_any_two_system_calls(make: Callable[[], Storage], change: Callable[[Storage], None]) -> None:
    whole = make()
    change(whole)
    for number in range(1, 1000):
        storage = make()
        storage.die_at(number)
        with suppress(Crash):
            change(storage)
        died = storage.calls >= number
        storage.disk.passing = lambda _call, _path: None
        change(storage)
        assert files(storage) == files(whole)
        assert [path for path, _, _ in storage.disk.image() if path.endswith(UNFINISHED)] == []
        if not died:
            assert number > 10
            return
    pytest.fail("it never came to an end")


def test_a_reinstated_storage_is_what_it_was() -> None:
    storage = after_an_error()

    reinstated(storage)

    assert files(storage) == files(Storage())
    assert files(storage)[marker()] is None


def test_a_restored_storage_is_what_it_was() -> None:
    storage = after_rewriting()
    assert files(storage) != files(Storage())

    restored(storage)

    assert files(storage) == files(Storage())
    images: list[BeforeImage] = list(storage.store.before_images(IDS).values())
    assert images == storage.images
