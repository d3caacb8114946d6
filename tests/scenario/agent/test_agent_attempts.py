"""An agent's stories of several attempts: a plan that no longer fits, and what earlier runs have left on the node."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import BEFORE_HANDOVER
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact
from nodeupgrade.api.task.status import BetweenAttempts, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.kube_api import RejectedError, UnavailableError
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.agent.serve import ATTEMPTS, ArtifactNeededError
from nodeupgrade.node.executor import units
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.steps import before_stop
from tests.doubles.node import Behaviour, pod_json
from tests.scenario.agent.guarded import kill
from tests.scenario.agent.harness import BACKUP, RUN, Killed, World, make_world, quiet, untouched, upgraded

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


async def test_a_pod_that_came_meanwhile_is_planned_while_the_kubelet_is_down(world: World) -> None:
    """The executor asks the agent, which has the pod's spec."""
    late = parse_pod(pod_json("late", "guest"))
    world.node.calls.before("services.mask kubelet.service", lambda: world.node.kubelet.pods.append(late))
    world.node.calls.durations["services.mask kubelet.service"] = 2.0

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.stops == 1
    assert status.containers.baseline == len([*world.before.running()]) + 1
    assert (world.node.kubelet.replaced, world.node.kubelet.violations) == ([], [])
    assert [c.name for asked in world.asked for c in asked.inventory.containers] == ["guest"]


async def test_a_node_that_never_gets_quiet_is_refused_and_has_not_failed(world: World) -> None:
    """Every time something starts that no agent can plan. Nothing was written, so that it may be tried again later."""

    def comes() -> None:
        comes_and_goes(world)
        world.node.calls.before("services.start kubelet.service", comes)

    comes()

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.INVENTORY_CHANGED)
    assert world.stops == ATTEMPTS
    assert "runtime.rewrite" not in world.node.calls.effects
    assert status.containers.restarted == 0
    ends = [world.runs.read_journal(RunId(f"{RUN}.{number}")).finished for number in range(1, ATTEMPTS + 1)]
    assert [each.since for each in status.between_attempts] == [datetime.fromisoformat(e.at) for e in ends if e]
    assert status.between_attempts[-1].until is None, "what crashes before the verdict does so under the old kubelet"


async def test_a_run_that_changed_the_node_accounts_for_what_restarts_until_the_verdict(world: World) -> None:
    world.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    status = await world.serve()

    assert (status.phase, status.between_attempts) == (TaskPhase.ROLLED_BACK, ())


async def test_a_second_attempt_that_fails_leaves_nothing_of_the_first(world: World) -> None:
    """The executor of the first is gone before anything is staged anew: at its end it would take that away."""
    comes_and_goes(world)
    executors: list[bool] = []

    def fails(moment: str) -> None:
        if moment == "get_node" and world.runs.read_journal(FIRST).finished is not None:
            executors.append(units.remain(world.node.ports.files, world.node.ports.services, "kubelet.service", ()))
            raise RejectedError("nodes is forbidden")

    world.hook = fails

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.INVENTORY_CHANGED)
    assert status.message.endswith("not tried again: cannot examine the node: nodes is forbidden")
    assert set(executors) == {False}
    assert list(world.left_behind()) == [BACKUP]


async def test_an_executor_that_still_cleans_up_does_not_keep_the_next_attempt_from_being_made(world: World) -> None:
    """Its journal says that the run is over before it has removed its timers and its drop-ins, by slow reloads."""
    comes_and_goes(world)
    works = world.tick

    def cleans_up() -> None:
        works()
        if world.runs.read_journal(FIRST).finished is not None and world.stops == 1:
            world.node.services.active.add(units.EXECUTOR)

    world.tick = cleans_up  # type: ignore[method-assign]

    status = await world.serve()

    assert (status.phase, world.stops) == (TaskPhase.SUCCEEDED, 2), status.message
    assert upgraded(world)


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


PLANNED, HELD_UP = "write_plan done", "patch_task_status"


async def wait_out(world: World, *, killed: bool, minutes: int, set_by: timedelta = timedelta()) -> TaskStatus:
    """Change the Node once a plan is on disk, which its agent cannot report for some time or does not outlive."""
    reports = iter(range(minutes * 30))

    def wait(moment: str) -> None:
        if PLANNED not in world.moments:
            return
        world.kube.labels.clear()
        world.node.timeline.set_by = set_by
        if killed:
            raise Killed
        if moment == HELD_UP and next(reports, None) is not None:
            raise UnavailableError("the API server does not answer")

    world.hook = wait
    if killed:
        with pytest.raises(Killed):
            await world.serve()
        world.hook = quiet
        world.node.timeline.advance(60 * minutes)
    return await world.serve()


@pytest.fixture
def selective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node with a pod that the running kubelet leaves alone without a label, and that none admits that starts."""
    pod = pod_json("web", "nginx")
    pod["spec"]["nodeSelector"] = {"pool": "x"}
    world = make_world(tmp_path, monkeypatch, pods=(pod,))
    world.kube.labels["pool"] = "x"
    return world


SET = [timedelta(), timedelta(hours=-1), timedelta(hours=1)]
"""By how much somebody sets the node's wall clock meanwhile."""


@pytest.mark.parametrize("set_by", SET, ids=str)
@pytest.mark.parametrize(("killed", "minutes"), [(True, 0), (True, 10), (False, 10)])
async def test_a_plan_of_which_nothing_was_begun_is_made_anew_for_the_node_as_it_is(
    selective: World, killed: bool, minutes: int, set_by: timedelta
) -> None:
    """Nobody has seen what a pod needs of the Node but the agent that is gone, or long ago."""
    status = await wait_out(selective, killed=killed, minutes=minutes, set_by=set_by)

    assert (status.phase, selective.stops) == (TaskPhase.REFUSED, 0), (status.reason, status.message)
    assert untouched(selective)


@pytest.mark.parametrize("set_by", SET, ids=str)
async def test_a_plan_that_was_made_a_moment_ago_is_not_made_anew(world: World, set_by: timedelta) -> None:
    status = await wait_out(world, killed=False, minutes=2, set_by=set_by)

    assert status.phase is TaskPhase.SUCCEEDED, (status.reason, status.message)
    assert world.moments.count(PLANNED) == 1


@pytest.mark.parametrize("killed", [False, True])
async def test_on_a_node_that_is_as_it_was_the_new_plan_is_carried_out(world: World, killed: bool) -> None:
    await wait_out(world, killed=killed, minutes=10)

    assert world.moments.count(PLANNED) == 2
    assert world.stops == 1
    assert upgraded(world)


async def test_a_plan_that_was_handed_over_goes_on_however_long_no_agent_comes(world: World) -> None:
    """An executor may have begun it by now."""
    world.hook = lambda moment: kill() if moment == "hand_over done" else None
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet
    world.node.timeline.advance(600)

    await world.serve()

    assert world.moments.count(PLANNED) == 1
    assert upgraded(world)


async def test_an_agent_without_the_image_of_the_kubelet_leaves_the_new_plan_to_one_that_has_it(world: World) -> None:
    """It was created to watch a run that had been reported."""
    world.hook = lambda moment: kill() if moment == PLANNED else None
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet
    image = "registry.example/kubelet@sha256:00"
    world.kube.wish(artifact=TaskArtifact(kind=ArtifactKind.IMAGE, ref=image, path="/kubelet"))

    for _ in range(2):
        with pytest.raises(ArtifactNeededError):
            await world.serve()
        assert world.status.phase in BEFORE_HANDOVER, "so that the next agent is given its files"
        assert untouched(world)


def comes_and_goes(world: World) -> None:
    """A container that runs while the kubelet is stopped for the first time, and a second later no more."""
    sandbox = next(iter(world.node.runtime.sandboxes.values()))
    gone: list[object] = []

    def comes() -> None:
        made = world.node.runtime.create_container(sandbox, "debug", HashValue("1"))
        world.node.timeline.after(1.0, lambda: gone.append(world.node.runtime.containers.pop(made.id)))

    world.node.calls.before("services.stop kubelet.service", comes)


def a_container_is_lost_on_the_way_back(world: World) -> str:
    """Return its label."""
    victim = next(c for c in world.node.inventory().running() if c.name == "nginx")
    world.node.calls.before("services.start kubelet.service", lambda: world.node.runtime.end(victim.id, exit_code=137))
    return victim.label


async def test_what_the_first_attempt_restarted_is_not_forgotten_by_the_second(world: World) -> None:
    """The second counts from what it found, so that alone it would say that nothing has restarted."""
    comes_and_goes(world)
    lost = a_container_is_lost_on_the_way_back(world)

    status = await world.serve()

    assert world.stops == 2
    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.CONTAINER_RESTARTED)
    assert (status.containers.restarted, status.containers.restarted_list) == (1, (lost,))
    assert status.containers.unchanged == status.containers.baseline - 1
    assert lost in status.message


async def test_the_first_stop_is_the_one_that_counts(world: World) -> None:
    """Whoever compares by the API discounts what ended before the kubelet was stopped."""
    comes_and_goes(world)

    status = await world.serve()

    first = world.runs.read_journal(FIRST).first(Step.STOP_KUBELET, Mark.DOING)
    assert first is not None
    stops = [step.started_at for step in status.steps if step.name == Step.STOP_KUBELET]
    assert stops == [datetime.fromisoformat(first.at)]


@pytest.mark.parametrize("again", [True, False], ids=["a second attempt", "none"])
async def test_when_the_old_kubelet_ran_between_attempts_is_told(world: World, again: bool) -> None:
    """What crashed then ended without the run, and only its time shows that: no attempt has seen it."""
    comes_and_goes(world)

    def change(moment: str) -> None:
        if not again and moment == "get_task" and world.runs.read_journal(FIRST).finished is not None:
            world.kube.wish(action=TaskAction.ABORT)

    world.hook = change

    status = await world.serve()

    ended = world.runs.read_journal(FIRST).finished
    stop = world.runs.read_journal(RunId(f"{RUN}.2")).first(Step.STOP_KUBELET, Mark.DOING) if again else None
    assert ended is not None
    until = None if stop is None else datetime.fromisoformat(stop.at)
    assert (until is not None) is again
    assert status.between_attempts == (BetweenAttempts(since=datetime.fromisoformat(ended.at), until=until),)


async def test_an_attempt_that_stops_no_kubelet_ends_no_time_between_attempts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three is turned back before: the old kubelet runs until the third stops it."""
    comes_and_goes(world)
    second, third = RunId(f"{RUN}.2"), RunId(f"{RUN}.3")

    def daemon(_node: Node, plan: RunPlan) -> None:
        if plan.run_id == second:
            raise StepFailed("a daemon came", reason=Reason.INVENTORY_CHANGED)

    monkeypatch.setattr(before_stop, "require_no_daemon", daemon)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.runs.read_journal(second).first(Step.STOP_KUBELET, Mark.DOING) is None
    stop = world.runs.read_journal(third).first(Step.STOP_KUBELET, Mark.DOING)
    assert stop is not None
    assert [each.until for each in status.between_attempts] == [datetime.fromisoformat(stop.at)] * 2


async def test_what_ended_before_the_first_stop_is_not_our_doing(world: World) -> None:
    victim = next(c for c in world.node.inventory().running() if c.name == "nginx")
    crashes = [victim.id]

    def crash() -> None:
        if crashes:
            world.node.runtime.end(crashes.pop(), exit_code=1)

    world.node.calls.before("services.stop kubelet.service", crash)

    status = await world.serve()

    assert world.stops == 1
    assert (status.phase, status.containers.restarted) == (TaskPhase.SUCCEEDED, 0)
    assert status.containers.ended_list == (victim.label,), "the second opinion must not take it for a restart"
    assert status.containers.ended == 1


NOT_AGAIN: list[dict[str, Any]] = [
    {"action": TaskAction.ABORT},
    {"deadline": datetime.now(UTC) - timedelta(seconds=1)},
    {"to_version": "v1.32.13"},
]


@pytest.mark.parametrize("changes", NOT_AGAIN, ids=["abort", "deadline", "refused"])
async def test_a_node_whose_second_attempt_never_began_is_not_called_untouched(
    world: World, changes: dict[str, Any]
) -> None:
    comes_and_goes(world)
    lost = a_container_is_lost_on_the_way_back(world)

    def change(moment: str) -> None:
        if moment == "get_task" and world.runs.read_journal(FIRST).finished is not None:
            world.kube.wish(**changes)

    world.hook = change

    status = await world.serve()

    assert world.stops == 1
    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert status.containers.restarted_list == (lost,)
    assert Step.STOP_KUBELET in [step.name for step in status.steps]
    assert "untouched" not in status.message
    assert world.left_behind().keys() == {BACKUP}
