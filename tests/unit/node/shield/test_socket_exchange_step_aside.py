"""The shield leaves the path of a runtime that has ended, and takes it again from the one that starts."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.builders.shield_sockets import KEPT, RUNTIME, Killed, Mortal, Rig, fresh


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(tmp_path, stack)


def test_it_leaves_the_path_to_a_runtime_that_has_ended(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    exchange.step_aside()
    assert (exchange.raised(), exchange.stands_by()) == (True, False), "the runtime runs"
    rig.listening["runtime"].close()
    for _ in range(2):
        exchange.step_aside()
        assert (rig.inode(), exchange.raised(), exchange.stands_by()) == (None, False, True)
    second = rig.listen("runtime", RUNTIME)
    exchange.step_aside()
    assert (rig.inode(), exchange.stands_by()) == (second, False), "that is somebody else's"
    exchange.raise_again()
    assert (rig.inode(), rig.inode(KEPT), exchange.restarts()) == (rig.shield, second, 1)


def test_what_is_not_raised_has_nothing_to_leave(rig: Rig) -> None:
    rig.listening["runtime"].close()
    rig.exchange().step_aside()
    assert rig.inode() == rig.runtime
    (rig.directory / KEPT).hardlink_to(rig.path)
    rig.exchange().step_aside()
    assert rig.inode() == rig.runtime


@pytest.mark.parametrize("then", ["raise", "lower"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_leaves_the_path(tmp_path: Path, then: str, after: bool) -> None:
    for number in range(1, 100):
        with ExitStack() as stack:
            rig = fresh(tmp_path, stack, number)
            rig.exchange().raise_up()
            rig.listening["runtime"].close()
            killed = False
            try:
                rig.exchange(Mortal(number, after=after)).step_aside()
            except Killed:
                killed = True
            second = rig.listen("runtime", RUNTIME)
            rig.exchange().raise_again() if then == "raise" else rig.exchange().lower()
            assert rig.inode() == (rig.shield if then == "raise" else second)
            assert rig.inode(KEPT) == (second if then == "raise" else None)
        if not killed:
            return
    pytest.fail("it never came to an end")
