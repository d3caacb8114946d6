"""Calls that fail once, or for ever. The executor lives on and must decide."""

from collections.abc import Callable

import pytest

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.packages.dpkg_database import STATUS
from nodeupgrade.node.journal.journal import Outcome
from tests.crash.harness import (
    ALL_WAYS,
    COPY,
    HARMLESS_LEFTOVERS,
    LEFTOVERS,
    WAYS,
    World,
    back,
    changing_back,
    failing_from,
    failing_moments,
    failing_once,
    forward,
    wrongs,
)
from tests.doubles.node import Crash, Moment, supervise
from tests.doubles.node.calls import Interrupt
from tests.doubles.node.kubelet import PROGRAM
from tests.enumeration import tried

HOLD_LEFT, HOLD_SAID = f"{STATUS} differs", "package kubelet:amd64 is still held (run apt-mark unhold kubelet:amd64)"
"""That dpkg does not take the hold back keeps no node out of service; but it has to be said."""


@ALL_WAYS
def test_one_failing_effect_ends_as_old_or_new_without_a_restart(make: Callable[[], World]) -> None:
    wrong = {}
    for number, name in tried(enumerate(make().run().effects), 12):
        for moment in failing_moments(name):
            after = make().run(failing_once(number, moment))
            found = [w for w in wrongs(after, restarts_allowed=False) if w not in HARMLESS_LEFTOVERS.get(name, ())]
            if found:
                wrong[f"{name} ({number}, {moment})"] = found

    assert wrong == {}


@ALL_WAYS
def test_one_failing_reading_ends_as_old_or_new_without_a_restart(make: Callable[[], World]) -> None:
    def failing_reading(number: int) -> Interrupt:
        def interrupt(name: str, at: int, moment: Moment) -> None:
            if moment is Moment.READING and at == number and not name.startswith("journal."):
                raise Transient(f"{name} got no answer") if name.startswith("runtime.") else StepFailed(name)

        return interrupt

    wrong = {}
    for number, name in tried(enumerate(make().run().node.calls.readings), 12):
        if name != "kubelet.healthy":  # answers no instead of failing
            after = make().run(failing_reading(number))
            leftovers = HARMLESS_LEFTOVERS.get(name, ())
            if found := [w for w in wrongs(after, restarts_allowed=False) if w not in leftovers]:
                wrong[f"{name} ({number})"] = found

    assert wrong == {}


@WAYS
def test_an_effect_that_fails_for_ever_never_breaks_the_invariant(make: Callable[[], World]) -> None:
    """Whatever cannot be repaired ends as Degraded, with a fence unless what stands is consistent."""
    wrong = {}
    outcomes = set()
    for since, name in tried(enumerate(make().run().effects), 11):
        after = make().run(failing_from(name, since))
        outcomes.add(after.report.outcome if after.report else None)
        if found := _unsafe(after):
            wrong[f"{name} from {since}"] = found

    assert wrong == {}
    assert Outcome.DEGRADED in outcomes


def test_a_program_that_could_not_be_swapped_needs_nothing_to_run_again() -> None:
    """dpkg's hooks remount /usr read-only on some nodes: ``DPkg::Post-Invoke``."""
    after = forward()

    def read_only(name: str, _number: int, moment: Moment) -> None:
        if moment is Moment.BEFORE and name == f"files.replace {PROGRAM}":
            raise StepFailed("read-only file system")

    after.run(read_only)

    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK, after.report.message
    assert wrongs(after, restarts_allowed=False) == []


@WAYS
def test_a_journal_that_can_no_longer_be_written_turns_the_run_back_within_the_budget(
    make: Callable[[], World],
) -> None:
    """What the rollback writes is kept in memory, and recorded once that is possible."""
    wrong = {}
    for since, name in enumerate(make().run().effects):
        if name.startswith("journal.append"):
            after = make()
            clock = after.node.timeline
            late: list[str] = []
            read_only = _ReadOnly(after, since, late)
            clock.after(REPAIRED_SECONDS, read_only.repair)
            after.run(read_only.interrupt)
            if after.report is None:  # the commit: the new kubelet runs, and every restart tries again
                clock.advance(REPAIRED_SECONDS)
                after.report = supervise(after.node, after.plan)
            if found := [*wrongs(after, restarts_allowed=False), *late]:
                wrong[f"{name} from {since}"] = found

    assert wrong == {}


def test_an_executor_whose_rollback_could_be_written_nowhere_goes_forward_no_more() -> None:
    """Disk and /run are full, and it is killed: once there is space, its journal ends before the rollback."""
    wrong = {}
    for since, name in enumerate(forward().run().effects):
        if name.startswith("journal.append") and name.endswith("doing"):
            for more in range(0, 40, 3):
                after = forward().run(_Full(since, more))
                if found := [w for w in wrongs(after, restarts_allowed=False) if w not in LEFTOVERS]:
                    wrong[f"{name} from {since}, killed after {more} effects"] = found

    assert wrong == {}


@pytest.mark.parametrize("make", [forward, back, changing_back], ids=["forward", "back", "changing-back"])
def test_a_disk_that_a_pod_fills_until_a_kubelet_evicts_it_keeps_no_kubelet_stopped(make: Callable[[], World]) -> None:
    """No space for any file but those in memory, from any moment on: what is to be put back was kept."""
    wrong = {}
    for since, name in tried(enumerate(make().run().effects), 12):
        after = make().run(full_from(since))
        if found := [w for w in wrongs(after, restarts_allowed=False) if w not in LEFTOVERS]:
            wrong[f"{name} ({since})"] = found

    assert wrong == {}


def full_from(since: int) -> Interrupt:
    """The disk is full from an effect on; names cost nothing, and the journal has its reserve."""

    def interrupt(name: str, at: int, moment: Moment) -> None:
        call, _, path = name.partition(" ")
        takes = call in {"files.write", "files.write_state", "files.copy"} and not path.startswith("/run/")
        if moment is Moment.BEFORE and at >= since and takes:
            raise StepFailed("no space left on device")

    return interrupt


class _Full:
    """No space for the journal from an effect on, until the executor is killed after some effects more."""

    def __init__(self, since: int, more: int) -> None:
        self.since, self.left, self.repaired = since, more, False

    def __call__(self, name: str, at: int, moment: Moment) -> None:
        if moment is not Moment.BEFORE or at < self.since or self.repaired:
            return
        if name.startswith(("journal.append", f"files.write {COPY}")):
            raise StepFailed("no space left on device")
        self.left -= 1
        if self.left < 0:
            self.repaired = True
            raise Crash


REPAIRED_SECONDS = 400.0


STATE = "/var/lib/nodeupgrade/"


class _ReadOnly:
    """A disk with all our state on it that cannot be written from an effect on, until it is repaired."""

    def __init__(self, after: World, since: int, late: list[str]) -> None:
        self.after, self.since, self.late = after, since, late
        self.until, self.struck = False, False

    def interrupt(self, name: str, at: int, moment: Moment) -> None:
        if not (name.startswith("journal.append") or STATE in name) or at < self.since or self.until:
            return
        if moment in {Moment.BEFORE, Moment.DURING}:
            if not self.struck:
                self.struck = True
                self.after.node.timeline.after(self.after.plan.limits.kubelet_down, self.look)
            raise StepFailed("read-only file system")

    def look(self) -> None:
        process = self.after.node.kubelet.process
        if process is None or not process.healthy:
            self.late.append("no kubelet when the budget is spent")

    def repair(self) -> None:
        self.until = True


def _unsafe(after: World) -> list[str]:
    node = after.node
    found = [*node.kubelet.violations, *node.kubelet.replaced]
    if after.report is not None and after.report.outcome is not Outcome.DEGRADED:
        left = {*LEFTOVERS, HOLD_LEFT} if HOLD_SAID in after.report.message else LEFTOVERS
        found += [w for w in wrongs(after, restarts_allowed=False) if w not in left]
    elif not node.services.unit.fenced:
        # Somebody may start the kubelet at any time; then it must find what it knows.
        node.services.start_kubelet()
        node.timeline.advance(3.0)
        found += [*node.kubelet.violations, *node.kubelet.replaced]
    return found
