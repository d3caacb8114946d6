"""An agent's stories about an executor that systemd cannot start: nobody waits for it for ever."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.kube_api import UnavailableError
from nodeupgrade.node.executor import units
from tests.scenario.agent.harness import RUN, World, untouched

FIRST = RunId(f"{RUN}.1")


async def test_what_systemd_cannot_start_is_found_out_before_anything_is_touched(world: World) -> None:
    """As with a bundle on a file system that is mounted noexec."""
    world.node.services.unstartable |= {units.TRIAL, units.EXECUTOR}

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EXECUTOR_UNAVAILABLE)
    assert "Permission denied" in status.message
    assert "noexec" in status.message
    assert f"services.start {units.EXECUTOR}" not in world.node.calls.effects
    assert untouched(world)


async def test_an_executor_that_does_not_come_is_not_waited_for(world: World) -> None:
    """What the trial has shown does not hold any more."""
    world.node.services.unstartable.add(units.EXECUTOR)
    world.tick = lambda: None  # type: ignore[method-assign]

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.EXECUTOR_UNAVAILABLE)
    assert "exit status 203" in status.message
    assert any("waiting for the executor" in told.message for told in world.kube.statuses), "and meanwhile it is said"
    assert world.moments.count("sleep") <= 100
    assert untouched(world)


CALLED_OFF: list[dict[str, Any]] = [
    {"action": TaskAction.ABORT},
    {"deadline": datetime.now(UTC) - timedelta(seconds=1)},
]


@pytest.mark.parametrize("changes", CALLED_OFF, ids=["abort", "deadline"])
async def test_a_run_that_is_called_off_before_its_first_record_is_taken_back(
    world: World, changes: dict[str, Any]
) -> None:
    """Here the executor is there and does nothing."""
    world.tick = lambda: None  # type: ignore[method-assign]

    def call_off(_moment: str) -> None:
        if units.EXECUTOR in world.node.services.active:
            world.kube.wish(**changes)

    world.hook = call_off

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.ABORTED)
    assert untouched(world)


async def test_the_deadline_holds_while_the_api_server_is_away(world: World) -> None:
    """It passes when nobody can read the task any more."""
    world.tick = lambda: None  # type: ignore[method-assign]
    refused: list[str] = []

    def away(moment: str) -> None:
        if units.EXECUTOR in world.node.services.active and moment == "get_task":
            refused.append(moment)
            world.kube.ahead = timedelta(hours=2)
            raise UnavailableError("the API server does not answer")

    world.hook = away

    status = await world.serve()

    assert refused
    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.ABORTED)
    assert untouched(world)
