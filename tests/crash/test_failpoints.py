"""Every failpoint, with everything that a test on a real node lets happen there: the names are the same."""

import errno
from collections.abc import Callable, Iterator

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.executor import units
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, KUBELET_STARTED, SHIELD_LOWERED, Failpoint, When, at
from tests.crash.harness import WAYS, World, back, wrongs
from tests.doubles.node import Crash
from tests.enumeration import tried

HANGS_SECONDS = 120.0


def kill(_world: World) -> None:
    raise Crash


def cut_power(_world: World) -> None:
    raise Crash(reboot=True)


def full_disk(_world: World) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def hang(world: World) -> None:
    world.node.timeline.advance(HANGS_SECONDS)


def freeze(_world: World) -> None:
    raise Crash(frozen=units.WATCHDOG_SECONDS)


def lose_units(world: World) -> None:
    world.node.services.lose(*units.UNITS)


@pytest.mark.parametrize("harm", [kill, cut_power, full_disk, hang, freeze, lose_units])
@WAYS
def test_whatever_happens_at_a_failpoint_the_node_ends_as_old_or_new(
    make: Callable[[], World], harm: Callable[[World], None]
) -> None:
    wrong = {}
    for name in tried(FAILPOINTS):
        after = make()
        after.node.calls.failpoints[name] = lambda world=after: harm(world)  # type: ignore[misc]  # bound at once
        after.run()
        if found := wrongs(after, restarts_allowed=harm is cut_power):
            wrong[name] = found

    assert wrong == {}


@WAYS
def test_a_frozen_executor_costs_little_more_than_the_time_until_its_watchdog_acts(make: Callable[[], World]) -> None:
    long = {}
    for name in {*FAILPOINTS} - {KUBELET_STARTED, at(Step.START_KUBELET, When.DONE)}:  # where a kubelet runs already
        after = make()
        after.node.calls.failpoints[name] = lambda world=after: freeze(world)  # type: ignore[misc]  # bound at once
        after.run()
        down = None if after.report is None else after.report.down_seconds
        if down is None or down > 2 * units.WATCHDOG_SECONDS:
            long[name] = down

    assert long == {}


def test_the_longest_way_there_and_back_passes_every_failpoint_that_has_an_effect_behind_it() -> None:
    passed = set(back().run().node.calls.passed)

    assert set(FAILPOINTS) - passed == set(_only_on_success())
    assert passed <= set(FAILPOINTS)


def _only_on_success() -> Iterator[Failpoint]:
    yield at(Step.VERIFY, When.DONE)
    yield from (at(Step.LOWER_SHIELD, when) for when in When)
    yield SHIELD_LOWERED
