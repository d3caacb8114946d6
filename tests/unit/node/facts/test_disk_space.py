"""A run takes space itself: copies of its own programs, and of both kubelets. None of that may be what fills a disk."""

from itertools import count
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.host import disks_have_room
from nodeupgrade.node.checks.kubelet import there_is_space
from nodeupgrade.node.host.files.files import DiskUsage
from nodeupgrade.node.plan.exchanged_files import NewFile
from tests.builders.file_cases import CONFIG, digest_of
from tests.builders.gathered import gathered, node

MIB = 1024**2
SIZE = 10 * 1024 * MIB
LEAST = SIZE * 15 // 100
"""What has to be free by default (``imagefs.available<15%``)."""
STATE = "/var/lib/nodeupgrade"
OLD, NEW = b"a" * 300_000, b"b" * 200_000


def gathered_with(
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    *,
    inodes: int = 0,
    free_inodes: int = 0,
    other: tuple[str, int] | None = None,
    exchanged: str | None = None,
) -> NodeFacts:
    """The facts of a node with one filesystem, and perhaps with another one for a directory, with so much space."""
    seen = node(files={CONFIG: OLD})

    def usage(path: PurePosixPath) -> DiskUsage:
        if other is not None and path.is_relative_to(other[0]):
            return DiskUsage(size=SIZE + 1, free=other[1], inodes=inodes, free_inodes=free_inodes)
        return DiskUsage(size=SIZE, free=free, inodes=inodes, free_inodes=free_inodes)

    monkeypatch.setattr(seen.files, "usage", usage)
    new = (
        None
        if exchanged is None
        else NewFile(path=exchanged, mode=0o600, digest=digest_of(NEW), source="a test", content=NEW)
    )
    return gathered(seen, new_files=() if new is None else (new,))


def test_a_node_that_the_run_itself_would_bring_below_the_threshold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kubelet, old or new, would evict pods for what the run has stored."""
    facts = gathered_with(monkeypatch, LEAST + 100 * MIB)

    (found,) = ask((disks_have_room,), facts.readiness)

    assert found.reason is Reason.EVICTION_THRESHOLD_MET
    assert not ask((disks_have_room,), gathered_with(monkeypatch, LEAST + 400 * MIB).readiness)


def test_so_is_one_whose_inodes_the_programs_would_use_up(monkeypatch: pytest.MonkeyPatch) -> None:
    inodes = 100_000
    for left, refused in ((2_000, True), (10_000, False)):
        facts = gathered_with(monkeypatch, SIZE, inodes=inodes, free_inodes=inodes // 20 + left)

        assert bool(ask((disks_have_room,), facts.readiness)) is refused


def test_what_is_stored_elsewhere_takes_nothing_of_the_kubelets_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = gathered_with(monkeypatch, LEAST + 100 * MIB, other=(STATE, SIZE))

    assert not ask((disks_have_room,), facts.readiness)


def test_the_programs_of_a_run_fill_no_small_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = gathered_with(monkeypatch, SIZE, other=(STATE, 100 * MIB))

    (found,) = ask((there_is_space,), facts)

    assert found.reason is Reason.INSUFFICIENT_SPACE
    assert not ask((there_is_space,), gathered_with(monkeypatch, SIZE, other=(STATE, 400 * MIB)))


def test_a_filesystem_that_makes_inodes_as_needed_is_one_although_their_number_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XFS with less than a quarter free: as many as fit in there, so that each write of anybody changes the number."""
    seen, looks = node(), count(500_000)

    def usage(_path: PurePosixPath) -> DiskUsage:
        inodes = next(looks)
        return DiskUsage(size=SIZE, free=LEAST + 100 * MIB, inodes=inodes, free_inodes=inodes - 100_000)

    monkeypatch.setattr(seen.files, "usage", usage)

    (found,) = ask((disks_have_room,), gathered(seen).readiness)

    assert found.reason is Reason.EVICTION_THRESHOLD_MET


def test_the_files_that_are_exchanged_take_space_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is staged, copied into place, and kept as it was."""
    (disk,) = {each.free for each in gathered_with(monkeypatch, SIZE).readiness.host.disks.values()}
    enough, more = LEAST + SIZE - disk, 2 * len(NEW) + len(OLD)

    assert not ask((disks_have_room,), gathered_with(monkeypatch, enough).readiness)
    assert ask((disks_have_room,), gathered_with(monkeypatch, enough + more - 1, exchanged=CONFIG).readiness)
    assert not ask((disks_have_room,), gathered_with(monkeypatch, enough + more, exchanged=CONFIG).readiness)


def test_the_filesystem_of_a_file_that_is_exchanged_may_be_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(*, free: int, exchanged: str | None) -> NodeFacts:
        return gathered_with(monkeypatch, SIZE, other=("/etc/kubernetes", free), exchanged=exchanged)

    new = "/etc/kubernetes/new.yaml"
    (found,) = ask((there_is_space,), facts(free=64 * MIB, exchanged=new))

    assert found.reason is Reason.INSUFFICIENT_SPACE
    assert not ask((there_is_space,), facts(free=64 * MIB, exchanged=None))
    assert not ask((there_is_space,), facts(free=65 * MIB, exchanged=new))
