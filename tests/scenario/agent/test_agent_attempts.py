"""An agent's stories of several attempts: a plan that no longer fits, and what earlier runs have left on the node."""

from dataclasses import replace

import pytest

from nodeupgrade.agent import units
from nodeupgrade.agent.settings import STATE
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task_status import TaskPhase
from nodeupgrade.domain.values import RunId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.ports.kube import RejectedError
from tests.scenario.agent.harness import BACKUP, RUN, Killed, World, upgraded

FIRST = RunId(f"{RUN}.1")


async def test_containers_that_came_meanwhile_get_a_second_plan(world: World) -> None:
    """A pod that starts between planning and stopping the kubelet turns the first attempt back."""
    sandbox = next(iter(world.node.runtime.sandboxes.values()))
    gone: list[object] = []

    def comes() -> None:
        made = world.node.runtime.create_container(sandbox, "debug", HashValue("1"))
        world.node.timeline.after(1.0, lambda: gone.append(world.node.runtime.containers.pop(made.id)))

    world.node.calls.before("services.stop kubelet.service", comes)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.stops == 2
    assert upgraded(world)
    first = world.runs.read_journal(FIRST).finished
    assert first is not None
    assert first.reason == Reason.INVENTORY_CHANGED


async def test_a_container_that_ended_meanwhile_gets_a_second_plan(world: World) -> None:
    """It ended before anything was touched, so that it is nothing to go back for."""
    victim = next(world.node.inventory().running())
    crashes = [victim.id]

    def crash() -> None:
        if crashes:
            world.node.runtime.end(crashes.pop(), exit_code=1)

    world.node.calls.before("services.stop kubelet.service", crash)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.stops == 2
    first = world.runs.read_journal(FIRST).finished
    assert first is not None
    assert first.reason == Reason.INVENTORY_CHANGED


async def test_a_second_attempt_that_fails_leaves_nothing_of_the_first(world: World) -> None:
    """The executor of the first is gone before anything is staged anew: at its end it would take that away."""
    victim = next(world.node.inventory().running())
    world.node.calls.before("services.stop kubelet.service", lambda: world.node.runtime.end(victim.id, exit_code=1))
    executors: list[bool] = []

    def fails(moment: str) -> None:
        if moment == "list_pods_on_node" and not world.runs.deleted_pods_wanted(FIRST) and world.stops:
            executors.append(units.remain(world.node.ports.files))
            raise RejectedError("pods is forbidden")

    world.hook = fails

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert set(executors) == {False}
    assert list(world.left_behind()) == [BACKUP]


async def test_an_earlier_plan_that_nobody_began_is_forgotten(world: World) -> None:
    """An executor that is started later for any reason must not find it."""
    world.settings = replace(world.settings, run_id=RunId("0123abcd-0"))
    world.kube.wish(run_id=world.settings.run_id)

    def killed(moment: str) -> None:
        if moment == "write_plan done":
            raise Killed

    world.hook = killed
    with pytest.raises(Killed):
        await world.serve()
    assert world.runs.unfinished() == "0123abcd-0.1"
    world.hook = lambda _moment: None
    world.settings = replace(world.settings, run_id=RUN)
    world.kube.wish(run_id=RUN)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.runs.unfinished() is None
    assert world.stops == 1


async def test_an_earlier_run_that_is_not_over_forbids_another(world: World) -> None:
    def stranded(moment: str) -> None:
        if world.stops:
            raise Killed

    world.hook = stranded
    with pytest.raises(Killed):
        await world.serve()
    world.hook = lambda _moment: None
    world.settings = replace(world.settings, run_id=RunId("0123abcd-2"))
    world.kube.wish(run_id=world.settings.run_id)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ROLLBACK_FAILED)
    assert f"run {FIRST}" in status.message
    assert str(STATE / "runs") in status.message
    assert units.remain(world.node.ports.files)
