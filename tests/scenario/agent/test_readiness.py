"""An agent's stories after the kubelet was exchanged: which pods were reported unready, and how long it looks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nodeupgrade.api.task.spec import GuardGrant
from nodeupgrade.api.task.status import GuardState, TaskPhase, TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.kube_api import ForbiddenError
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.doubles.node import Behaviour
from tests.scenario.agent.guarded import EXPOSURE, PAST, Make, pod, reported
from tests.scenario.agent.harness import NEW, RUN, Killed, World, quiet


@pytest.fixture
def world(make_guarded: Make) -> World:
    return make_guarded()


def once_stopped(world: World, act: Callable[[], None]) -> Callable[[str], None]:
    pending = [act]

    def hook(moment: str) -> None:
        if moment == "sleep" and world.stops and pending:
            pending.pop()()

    return hook


@pytest.mark.parametrize("guard", [GuardGrant(wanted=True), GuardGrant()], ids=["guarded", "unguarded"])
async def test_pods_that_become_unready_for_no_reason_are_named(world: World, guard: GuardGrant) -> None:
    world.kube.wish(guard=guard)

    def report() -> None:
        web, job = pod(world, "web"), pod(world, "job")
        world.kube.report(reported(world, web, "False"))
        world.kube.report(reported(world, web))
        world.kube.report(reported(world, job, "False", replaced=True))  # its container was replaced

    world.hook = once_stopped(world, report)

    status = await world.serve()

    assert status.containers.readiness_flaps == ("default/web",)
    assert status.message.endswith("; reported unready meanwhile: default/web")
    assert status.phase is TaskPhase.SUCCEEDED, "that fails no run"


@pytest.mark.parametrize(("namespace", "named"), [("default", ("default/web",)), ("nodeupgrade-system", ())])
async def test_only_the_runs_own_pods_are_not_watched(world: World, namespace: str, named: tuple[str, ...]) -> None:
    """Anybody may give a pod their labels."""

    def report() -> None:
        web = pod(world, "web")
        web["metadata"] = {**web["metadata"], "namespace": namespace, "labels": AGENT_LABELS}
        world.kube.report(reported(world, web))
        world.kube.report(reported(world, web, "False"))

    world.hook = once_stopped(world, report)

    assert (await world.serve()).containers.readiness_flaps == named


async def test_a_pod_that_stays_unready_is_named_in_the_end(world: World) -> None:
    unready = {"now": "True"}

    def report() -> None:
        unready["now"] = "False"
        world.kube.report(reported(world, pod(world, "web"), "False"))

    def changed(pod: dict[str, Any]) -> None:
        pod |= reported(world, pod, unready["now"] if pod["metadata"]["name"] == "web" else "True")

    world.kube.changed, world.hook = changed, once_stopped(world, report)

    status = await world.serve()

    assert status.message.endswith("; unready although their containers run on: default/web")


async def test_a_replaced_agent_remembers_what_was_seen(world: World) -> None:
    def flap() -> None:
        world.kube.report(reported(world, pod(world, "web"), "False"))
        world.kube.report(reported(world, pod(world, "web")))

    flapping = once_stopped(world, flap)

    def hook(moment: str) -> None:
        flapping(moment)
        if moment == "patch_task_status done" and world.status.containers.readiness_flaps:
            raise Killed

    world.hook = hook
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet

    assert (await world.serve()).containers.readiness_flaps == ("default/web",)


async def test_a_watch_that_cannot_be_had_is_said_so_and_fails_nothing(world: World) -> None:
    world.kube.reports.put_nowait(ForbiddenError("pods is forbidden"))

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert status.guard.state is GuardState.IN_FORCE
    assert status.guard.detail == (
        "which pods were reported unready was not observed: pods cannot be watched: pods is forbidden"
    )


# ── lingering ───────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds_after_start(world: World) -> float:
    """From the start of the kubelet that runs in the end until now."""
    process = world.node.kubelet.process
    assert process is not None
    return world.node.timeline.monotonic - process.started


@pytest.mark.parametrize("behaviour", [Behaviour.WELL, Behaviour.EXITS], ids=["upgraded", "rolled back"])
async def test_the_end_is_told_once_every_pod_was_probed(world: World, behaviour: Behaviour) -> None:
    world.node.kubelet.behaviour[NEW] = behaviour
    ended = {Behaviour.WELL: TaskPhase.SUCCEEDED, Behaviour.EXITS: TaskPhase.ROLLED_BACK}[behaviour]

    status = await world.serve()

    assert status.phase is ended
    assert EXPOSURE - 1 <= seconds_after_start(world) < EXPOSURE + 2
    (waiting,) = {told.phase for told in world.kube.statuses if told.message.startswith("nothing is left to do")}
    assert waiting is (TaskPhase.VERIFYING if ended is TaskPhase.SUCCEEDED else TaskPhase.ROLLING_BACK)
    assert all(told.finished_at is None for told in world.kube.statuses[:-1])
    assert status.finished_at == world.node.timeline.wall


async def test_nobody_is_kept_waiting_whose_time_is_up(world: World) -> None:
    def late(moment: str) -> None:
        if moment == "_clean_up done":
            world.kube.wish(deadline=PAST)

    world.hook = late

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert seconds_after_start(world) < EXPOSURE - 1


async def test_killed_while_lingering_the_next_agent_lingers_no_longer_than_the_first(world: World) -> None:
    def lingering(_moment: str) -> None:
        if world.status.message.startswith("nothing is left to do"):
            raise Killed

    world.hook = lingering
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet

    status: TaskStatus = await world.serve()

    assert status == replace(status, phase=TaskPhase.SUCCEEDED)
    assert seconds_after_start(world) < EXPOSURE + 2


async def test_a_node_that_does_not_answer_after_the_run_does_not_hold_up_its_report(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_unit: str) -> UnitStatus:
        raise StepFailed("systemd does not answer")

    def once_settled(moment: str) -> None:
        if moment == "with_ended_since":
            world.node.runtime.end(next(c.id for c in world.before.running() if c.name == "nginx"), 1)
            monkeypatch.setattr(world.node.services, "status", silent)

    world.hook = once_settled

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "on request"])
async def test_what_ends_by_itself_while_the_probes_are_awaited_is_named(world: World, asked: bool) -> None:
    """The control plane, which counts every restart until its verdict, believes that of the node alone."""
    runtime = world.node.runtime
    victim = next(c.id for c in world.before.running() if c.name == "nginx")
    pending = [partial(runtime.stop_container, victim) if asked else partial(runtime.end, victim, 1)]

    def once_settled(moment: str) -> None:
        attempt = RunId(f"{RUN}.1")
        if moment == "sleep" and pending and world.runs.read_journal(attempt).finished is not None:
            pending.pop()()

    world.hook = once_settled

    status = await world.serve()

    assert pending == []
    assert status.phase is TaskPhase.SUCCEEDED
    assert status.containers.ended_list == (() if asked else ("default/web/nginx",))
    assert status.containers.ended == len(status.containers.ended_list)
    assert status.containers.unchanged == status.containers.baseline - (0 if asked else 1)
