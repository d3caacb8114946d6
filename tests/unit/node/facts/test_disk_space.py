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
from tests.builders.gathered import gathered, node

MIB = 1024**2
SIZE = 10 * 1024 * MIB
LEAST = SIZE * 15 // 100
"""What has to be free by default (``imagefs.available<15%``)."""


def gathered_with(
    monkeypatch: pytest.MonkeyPatch, free: int, *, inodes: int = 0, free_inodes: int = 0, state: int | None = None
) -> NodeFacts:
    """The facts of a node with one filesystem, or with another one for /var/lib/nodeupgrade with so much space."""
    seen = node()

    def usage(path: PurePosixPath) -> DiskUsage:
        if state is not None and path.is_relative_to("/var/lib/nodeupgrade"):
            return DiskUsage(size=SIZE + 1, free=state, inodes=inodes, free_inodes=free_inodes)
        return DiskUsage(size=SIZE, free=free, inodes=inodes, free_inodes=free_inodes)

    monkeypatch.setattr(seen.files, "usage", usage)
    return gathered(seen)


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
    facts = gathered_with(monkeypatch, LEAST + 100 * MIB, state=SIZE)

    assert not ask((disks_have_room,), facts.readiness)


def test_the_programs_of_a_run_fill_no_small_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = gathered_with(monkeypatch, SIZE, state=100 * MIB)

    (found,) = ask((there_is_space,), facts)

    assert found.reason is Reason.INSUFFICIENT_SPACE
    assert not ask((there_is_space,), gathered_with(monkeypatch, SIZE, state=400 * MIB))


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
