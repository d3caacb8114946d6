"""What dockerd finds after its files were written, wherever that was interrupted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.docker import metadata
from nodeupgrade.node.runtimes.docker.hash_store import LabelStore, config_path
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.builders.docker_files import ID, OTHER, content
from tests.doubles.node.storage.disk import Image, ModelDisk

ROOT = PurePosixPath("/var/lib/docker")
OLD, NEW = StoredHashes(container=HashValue("aaaa0000")), StoredHashes(container=HashValue("b1"))
BOTH = (ID, OTHER)


class Cut(BaseException):
    """The power fails."""


@dataclass
class Dockerd:
    """Two containers on a disk that may lose power; and dockerd, which runs and writes over what it finds."""

    disk: ModelDisk = field(default_factory=ModelDisk)
    runs: bool = True
    restless: bool = False

    def __post_init__(self) -> None:
        for container_id in BOTH:
            self.put(container_id, content({metadata.HASH_LABEL: "aaaa0000"}, container_id))

    @property
    def store(self) -> LabelStore:
        files = HostFiles(disk=self.disk)
        return LabelStore(files=files, root=lambda: ROOT, stop=self.stop, stopped=lambda: not self.runs)

    def stop(self) -> None:
        """The last thing that dockerd does is to note something about every container."""
        if self.runs:
            for container_id in BOTH:
                data = self.disk.content(str(config_path(ROOT, container_id)))
                if data is not None:
                    self.put(container_id, data.replace(b'"Pid":4711', b'"Pid":4712'))
        self.runs = self.restless

    def put(self, container_id: ContainerId, data: bytes) -> None:
        self.disk.put(str(config_path(ROOT, container_id)), data, 0o600)

    def hashes(self) -> set[StoredHashes]:
        return {image.hashes for image in self.store.before_images(BOTH).values()}

    def noted(self) -> set[bool]:
        return {b'"Pid":4712' in (self.disk.content(str(config_path(ROOT, i))) or b"") for i in BOTH}


def rewritten(dockerd: Dockerd) -> None:
    images = Dockerd().store.before_images(BOTH)
    dockerd.store.rewrite([(image, NEW) for image in images.values()])


def restored(dockerd: Dockerd) -> None:
    images = Dockerd().store.before_images(BOTH)
    for image in images.values():
        dockerd.store.restore(image)


def cuts(image: Image, *, back: bool) -> Iterator[Image]:
    """Everything that may be on the disk if power fails between any two system calls."""
    moment = 0
    while True:
        dockerd = Dockerd()
        dockerd.disk.load(image)
        dockerd.runs = False
        left = [moment]

        def strike(_call: str, _path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Cut

        dockerd.disk.passing = strike
        try:
            (restored if back else rewritten)(dockerd)
        except Cut:
            dockerd.disk.passing = lambda _call, _path: None
            yield from dockerd.disk.after_power_cut()
            moment += 1
            continue
        return


def test_nothing_is_written_while_dockerd_runs_and_what_it_notes_at_its_end_stays() -> None:
    dockerd = Dockerd()

    rewritten(dockerd)

    assert (dockerd.runs, dockerd.hashes(), dockerd.noted()) == (False, {NEW}, {True})
    restored(dockerd)
    assert (dockerd.hashes(), dockerd.noted()) == ({OLD}, {True})


def test_dockerd_is_not_stopped_for_nothing() -> None:
    dockerd = Dockerd()
    restored(dockerd)
    assert dockerd.runs

    rewritten(dockerd)
    dockerd.runs = True
    rewritten(dockerd)
    assert dockerd.runs


def test_a_dockerd_that_somebody_starts_meanwhile_is_noticed() -> None:
    with pytest.raises(StepFailed, match="another process started dockerd"):
        rewritten(Dockerd(restless=True))


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_whatever_a_power_cut_leaves_dockerd_can_load_and_a_repetition_completes(back: bool) -> None:
    before = Dockerd()
    if back:
        rewritten(before)
    found = list(cuts(before.disk.image(), back=back))

    assert len(found) > 10
    seen = set()
    for image in found:
        after = Dockerd()
        after.disk.load(image)
        seen |= (hashes := after.hashes())
        assert hashes <= {OLD, NEW}, "half a file, which dockerd would not load"
        for again in (rewritten, restored):
            again(after)
        assert after.hashes() == {OLD}
        assert [path for path, _, _ in after.disk.image() if "nodeupgrade" in path] == []
    assert seen == {OLD, NEW}


def test_the_control_a_file_that_is_written_in_place_would_be_lost() -> None:
    dockerd = Dockerd()
    path = config_path(ROOT, ID)
    data = dockerd.disk.content(str(path)) or b""
    descriptor = dockerd.disk.open(path, 1)  # O_WRONLY
    dockerd.disk.write(descriptor, data.replace(b"aaaa0000", b"b1"))
    states = list(dockerd.disk.after_power_cut())

    def loads(image: Image) -> bool:
        after = Dockerd()
        after.disk.load(image)
        try:
            return after.hashes() <= {OLD, NEW}
        except UnexpectedMetadata:
            return False

    assert not all(map(loads, states))


def test_what_somebody_else_wrote_is_left_alone() -> None:
    dockerd = Dockerd()
    dockerd.put(OTHER, content({metadata.HASH_LABEL: "aaaa0000", "theirs": "x"}, OTHER))

    with pytest.raises(MetadataConflict):
        rewritten(dockerd)
    with pytest.raises(MetadataConflict):
        restored(dockerd)

    assert (dockerd.runs, dockerd.hashes()) == (True, {OLD}), "nothing is written unless everything can be"


@pytest.mark.parametrize("container_id", ["../../../etc", "", "c" * 63, "C" * 64])
def test_an_id_that_docker_does_not_give_leads_nowhere(container_id: str) -> None:
    with pytest.raises(StepFailed, match="not an id of Docker"):
        Dockerd().store.before_images([ContainerId(container_id)])


def test_a_container_that_is_gone_is_said_to_be_gone() -> None:
    dockerd = Dockerd()
    images = dockerd.store.before_images(BOTH)
    gone = ContainerId("e" * 64)

    assert set(dockerd.store.before_images([ID, gone])) == {ID}
    dockerd.disk.load(())
    with pytest.raises(ContainerGone):
        dockerd.store.restore(images[ID])
    with pytest.raises(ContainerGone):
        dockerd.store.rewrite([(images[ID], NEW)])
