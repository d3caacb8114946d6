"""What every Shield promises."""

import pytest

from nodeupgrade.errors import StepFailed
from tests.contract.node.worlds import ShieldWorld


def test_raising_and_lowering_may_be_repeated(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    assert (shield.ready(), shield.raised()) == (True, False)
    for _ in range(2):
        for _ in range(2):
            shield.raise_up()
            assert (shield.ready(), shield.raised()) == (True, True)
        for _ in range(2):
            shield.lower()
            assert (shield.ready(), shield.raised()) == (True, False)
    assert (shield.refused(), shield.restarts(), shield.stands_by()) == ((), 0, False)


def test_it_refuses_while_it_is_raised(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    for count in (1, 2):
        assert shield_world.refuses()
        assert (len(shield.refused()), shield.waiting()) == (count, 0)
    first, second = shield.refused()
    assert first.monotonic <= second.monotonic
    assert (first.method, first.wanted) == ("StopContainer", "stop")
    assert str(first) == f"stop {first.label}"
    assert first.label.startswith("contract/pod")

    shield.lower()
    assert not shield_world.refuses()
    assert len(shield.refused()) == 2, "what was refused stays known"


def test_it_is_lowered_without_its_process(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    shield_world.crash()
    assert (shield.ready(), shield.raised()) == (False, True), "nobody gets past it"
    for _ in range(2):
        shield.lower()
        assert not shield.raised()
    with pytest.raises(StepFailed):
        shield.raise_up()
    assert not shield.raised()


def test_a_process_that_was_lost_stands_there_again(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    shield_world.crash()
    shield_world.start()
    assert (shield.ready(), shield.raised(), shield.restarts()) == (True, True, 0)
    assert shield_world.refuses()
    shield.lower()


def test_a_runtime_may_restart_behind_it(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    for count in (1, 2):
        shield_world.restart_runtime()
        assert (shield.raised(), shield.restarts()) == (True, count)
    assert shield_world.refuses()
    shield.lower()
    shield_world.restart_runtime()
    assert (shield.raised(), shield.restarts()) == (False, 2)


def test_a_runtime_takes_its_path_back_from_a_dead_process(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    shield_world.crash()
    shield_world.restart_runtime()
    assert (shield.raised(), shield.restarts()) == (False, 0)
    shield.lower()
    assert not shield_world.refuses()


def test_it_is_cleared_without_its_process_and_leaves_nothing(shield_world: ShieldWorld) -> None:
    shield = shield_world.shield
    shield.raise_up()
    shield_world.crash()
    for _ in range(2):
        shield.clear()
    assert (shield.ready(), shield.raised()) == (False, False)
