"""An agent that is lost while it installs the executor's units: who comes next takes the plan up, or leaves nothing."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import RunId
from nodeupgrade.node.executor import units
from tests.doubles.node import Moment, pod_json
from tests.scenario.agent.harness import Killed, World, make_world, quiet, untouched, upgraded


def selective(root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node with a pod that the running kubelet leaves alone without a label, and that none admits that starts."""
    root.mkdir()
    pod = pod_json("web", "nginx")
    pod["spec"]["nodeSelector"] = {"pool": "x"}
    world = make_world(root, monkeypatch, pods=(pod,))
    world.kube.labels["pool"] = "x"
    return world


async def lost(world: World, at: int) -> str:
    """Have an agent lost at the start of an effect of its handover; return the effect, or nothing if none is left."""
    begun, seen = [False], list[str]()

    def begins(moment: str) -> None:
        begun[0] = begun[0] or moment == "hand_over"

    def kill(name: str, _number: int, moment: Moment) -> None:
        if not begun[0] or moment is not Moment.BEFORE:
            return
        if len(seen) == at:
            begun[0] = False
            seen.append(name)
            raise Killed
        seen.append(name)
        if name == f"services.start {units.EXECUTOR}":
            begun[0] = False

    world.hook, world.node.calls.interrupt = begins, kill
    try:
        await world.serve()
    except Killed:
        return seen[-1]
    finally:
        world.hook = quiet
    return ""


async def each(
    root: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, pytest.MonkeyPatch], World]
) -> AsyncIterator[tuple[World, str]]:
    """Yield a node for each effect of a handover at which its agent was lost; and the effect."""
    for number in count():
        world = make(root / str(number), monkeypatch)
        where = await lost(world, number)
        if not where:
            assert number > len(units.UNITS)
            return
        world.tick()
        assert world.stops == 0
        yield world, where


def plain(root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    root.mkdir()
    return make_world(root, monkeypatch)


async def test_the_next_agent_finishes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async for world, where in each(tmp_path, monkeypatch, plain):
        status = await world.serve()

        assert status.phase is TaskPhase.SUCCEEDED, (where, status.message)
        assert upgraded(world), (where, sorted(world.left_behind()))
        assert world.stops == 1, where


async def test_an_agent_that_comes_later_begins_no_outdated_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label was removed meanwhile, which no executor sees."""
    async for world, where in each(tmp_path, monkeypatch, selective):
        world.kube.labels.clear()
        world.node.timeline.advance(600)

        status = await world.serve()

        assert (status.phase, world.stops) == (TaskPhase.REFUSED, 0), (where, status.reason, status.message)
        assert untouched(world), (where, sorted(world.left_behind()))


async def test_an_executor_that_something_else_starts_later_begins_no_outdated_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet's unit wants it: whoever restarts the kubelet starts it, hours later, and nobody expects a run."""
    async for world, where in each(tmp_path, monkeypatch, plain):
        world.node.timeline.advance(3600)
        world.node.services.active.add(units.EXECUTOR)
        world.tick()
        world.tick()

        assert world.stops == 0, where
        [run] = world.runs.begun_runs()
        ended = world.runs.read_journal(run).finished
        assert ended is not None
        assert ended.reason == Reason.INVENTORY_CHANGED

        status = await world.serve()

        assert status.phase is TaskPhase.SUCCEEDED, (where, status.message)
        assert upgraded(world), (where, sorted(world.left_behind()))
        assert world.stops == 1, where


async def test_of_a_run_that_is_called_off_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async for world, where in each(tmp_path, monkeypatch, plain):
        world.kube.wish(action=TaskAction.ABORT)

        status = await world.serve()

        assert status.phase is TaskPhase.FAILED, where
        assert untouched(world), (where, sorted(world.left_behind()))


async def test_the_next_run_finds_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async for world, where in each(tmp_path, monkeypatch, plain):
        world.settings = replace(world.settings, run_id=RunId("0123abcd-9"))
        world.kube.wish(run_id=world.settings.run_id)

        status = await world.serve()

        assert status.phase is TaskPhase.SUCCEEDED, (where, status.message)
        assert upgraded(world), (where, sorted(world.left_behind()))
        assert world.stops == 1, where
