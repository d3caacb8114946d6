"""An API server that does not take what the agent has to say: less is told then, and nobody waits for ever."""

from collections.abc import Callable

import pytest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.cluster.kube_api import ForbiddenError, InvalidError
from nodeupgrade.node.agent.task_reporter import PATIENCE_SECONDS, READ_PATIENCE_SECONDS, TaskRefusedError
from tests.scenario.agent.harness import World, untouched, upgraded

Refuses = Callable[[TaskStatus], Exception | None]


def let_refuse(world: World, monkeypatch: pytest.MonkeyPatch, refuses: Refuses) -> list[float]:
    """Make the API server refuse statuses; returns the moments at which it did."""
    accepted, moments = world.kube.patch_task_status, list[float]()

    async def patch(name: str, status: TaskStatus) -> Task:
        if (refusal := refuses(status)) is not None:
            moments.append(world.node.timeline.monotonic)
            raise refusal
        return await accepted(name, status)

    monkeypatch.setattr(world.kube, "patch_task_status", patch)
    return moments


async def test_what_older_crds_do_not_know_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    let_refuse(world, monkeypatch, lambda status: InvalidError("status.preview: no") if status.preview else None)
    world.kube.wish(action=TaskAction.PRECHECK)

    status = await world.serve()

    assert (status.phase, status.preview) == (TaskPhase.PRECHECKED, None)
    assert status.message.endswith("the API server rejects the full status; update the CRDs: status.preview: no")
    assert status.finished_at is not None


async def test_a_refusal_that_passes_delays_the_run_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = let_refuse(
        world, monkeypatch, lambda _status: ForbiddenError("no") if world.node.timeline.monotonic < began + 60 else None
    )
    began = world.node.timeline.monotonic

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert upgraded(world)
    assert len(moments) < 12, "it asks less and less often"


@pytest.mark.parametrize("error", [ForbiddenError, InvalidError])
async def test_an_agent_that_is_never_heard_touches_nothing_and_makes_room_for_another(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    moments = let_refuse(world, monkeypatch, lambda _status: error("no"))

    with pytest.raises(TaskRefusedError, match="no"):
        await world.serve()

    assert PATIENCE_SECONDS <= moments[-1] - moments[0] < 2 * PATIENCE_SECONDS
    assert world.stops == 0
    monkeypatch.undo()
    assert not untouched(world), "its plan is there for the next one"


async def test_an_agent_that_may_not_read_its_task_ends_and_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that waited for ever could tell nobody: its rights are what it lacks."""
    began = world.node.timeline.monotonic

    async def refused(_name: str) -> Task:
        raise ForbiddenError("not you")

    monkeypatch.setattr(world.kube, "get_task", refused)
    with pytest.raises(TaskRefusedError, match="refuses to show the task: not you"):
        await world.serve()

    assert READ_PATIENCE_SECONDS <= world.node.timeline.monotonic - began < 2 * READ_PATIENCE_SECONDS
    monkeypatch.undo()
    assert untouched(world)


async def test_the_next_agent_tells_how_the_run_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    let_refuse(world, monkeypatch, lambda status: ForbiddenError("no") if status.phase.terminal else None)
    with pytest.raises(TaskRefusedError):
        await world.serve()

    monkeypatch.setattr(world.kube, "patch_task_status", type(world.kube).patch_task_status.__get__(world.kube))

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert world.stops == 1
    assert upgraded(world)
