"""An agent's stories about what earlier runs have left on the node, and who is told of it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.task.spec import TaskAction, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import RunId
from nodeupgrade.findings.finding import PASSING
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.executor import units
from nodeupgrade.node.executor.control import ExecutorService
from nodeupgrade.node.own_directories import STATE_DIRECTORY
from nodeupgrade.node.plan.plan import ShownKubelet
from tests.doubles.node import Behaviour
from tests.doubles.node.kubelet import PROGRAM, program
from tests.scenario.agent.harness import BACKUP, NEW, OLD, RUN, Killed, World, quiet, untouched, upgraded

FIRST, SECOND = RunId(f"{RUN}.1"), RunId("0123abcd-2.1")
DECISIONS = 4
"""Enough to have the kubelet stopped, if nothing objects."""
OTHER_VERSION = "v1.32.13"
OTHERS = {"run_id": RunId("ffff0000-9"), "upgrade_ref": UpgradeRef(name="another", uid="ffff0000")}


async def lost_once_begun(world: World) -> None:
    """Let an agent hand over and vanish; the executor goes on, and the kubelet has not been stopped yet."""

    def lost(moment: str) -> None:
        if moment == "hand_over done":
            raise Killed

    world.hook = lost
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet
    world.tick()
    assert world.runs.begun() == FIRST


async def lost_in_mid_run(world: World) -> None:
    """Let an agent hand over and vanish as soon as the kubelet is stopped; the executor goes on."""

    def lost(_moment: str) -> None:
        if world.stops:
            raise Killed

    world.hook = lost
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet


def task_made_anew(world: World, **changes: Any) -> None:
    """Somebody deletes the task, and the control plane makes another one for another run."""
    run = changes.setdefault("run_id", RunId("0123abcd-2"))
    assert world.kube.task is not None
    world.kube.task = replace(world.kube.task, status=type(world.kube.task.status)())
    world.kube.statuses.clear()
    world.kube.wish(**changes)
    world.settings = replace(world.settings, run_id=run)


def to_its_end(world: World) -> None:
    """Let the executor finish without anybody's looking, once an agent has told it that the new kubelet is shown."""
    run = world.runs.begun()
    assert run is not None
    plan = world.runs.require_plan(run)
    world.runs.report_kubelet(run, ShownKubelet(at=0.0, answered=True, version=plan.to_version))
    for _ in range(200):
        world.node.timeline.advance(0.5)
        world.tick()
    assert world.runs.begun() is None


@pytest.mark.parametrize("changes", [{"run_id": RunId("0123abcd-2")}, OTHERS], ids=["its own", "another rollout"])
async def test_a_run_that_goes_on_is_attended_to_under_its_new_name(world: World, changes: dict[str, Any]) -> None:
    """Also where somebody has taken it to be over, so that another rollout has taken the node."""
    await lost_in_mid_run(world)
    task_made_anew(world, **changes)

    status = await world.serve()

    assert (status.phase, status.run_id) == (TaskPhase.SUCCEEDED, changes["run_id"])
    assert (status.containers.baseline, status.containers.unchanged) == (4, 4)
    assert status.kubelet.down_seconds
    assert world.stops == 1
    assert upgraded(world)


async def test_what_is_staged_for_a_run_that_goes_on_stays(world: World) -> None:
    """Whatever becomes of another agent meanwhile: here it cannot read how far the run has come."""
    await lost_once_begun(world)
    journal = world.root / "var/lib/nodeupgrade/runs" / FIRST / "journal"
    readable = journal.read_bytes()
    journal.write_bytes(b"x" + readable)
    task_made_anew(world)
    before = dict(world.node.disk)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ROLLBACK_FAILED)
    assert str(STATE_DIRECTORY / "runs") in status.message
    assert world.node.disk == before
    assert units.remain(world.node.ports.files, world.node.ports.services, "kubelet.service", ())
    journal.write_bytes(readable)
    to_its_end(world)
    assert world.node.disk[PROGRAM] == program(NEW)


async def test_a_run_that_needs_a_human_is_not_started_again(world: World) -> None:
    """Somebody may have repaired the node meanwhile, and deleted the task as the message says."""
    await lost_in_mid_run(world)
    world.runs.report_trouble(FIRST, "the plan and the node disagree")
    world.node.services.active.discard(units.EXECUTOR)
    task_made_anew(world)
    known = len(world.node.calls.effects)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ROLLBACK_FAILED)
    assert "the plan and the node disagree" in status.message
    assert str(STATE_DIRECTORY / "runs") in status.message
    assert len(world.node.calls.effects) == known


async def test_what_a_run_has_harmed_alone_is_told_to_whoever_asks_next(world: World) -> None:
    victim = next(c for c in world.node.inventory().running() if c.name == "nginx")
    await lost_in_mid_run(world)
    world.node.calls.before("services.start kubelet.service", lambda: world.node.runtime.end(victim.id, exit_code=137))
    to_its_end(world)
    task_made_anew(world)

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK
    assert status.containers.restarted_list == (victim.label,)
    assert "untouched" not in status.message


async def test_a_success_that_nobody_was_told_of_is_told(world: World) -> None:
    """The node runs the target by then, but not because nothing had to be done."""
    await lost_in_mid_run(world)
    to_its_end(world)
    task_made_anew(world, from_version=NEW)

    status = await world.serve()

    assert (status.phase, status.run_id) == (TaskPhase.SUCCEEDED, "0123abcd-2")
    assert (status.containers.baseline, status.containers.rewritten) == (4, 4)
    assert status.kubelet.before is not None
    assert status.kubelet.before.version == OLD
    assert world.stops == 1
    assert upgraded(world)


async def test_an_agent_whose_task_is_deleted_has_told_nobody(world: World) -> None:
    def delete(_moment: str) -> None:
        if world.stops:
            world.kube.task = None

    task = world.kube.task
    world.hook = delete
    with pytest.raises(AssertionError):
        await world.serve()  # there is no status to return
    world.hook = quiet
    assert not world.runs.is_reported(FIRST)
    world.kube.task = task
    task_made_anew(world, from_version=NEW)

    status = await world.serve()

    assert (status.phase, status.containers.baseline) == (TaskPhase.SUCCEEDED, 4)
    assert world.runs.is_reported(FIRST)


async def test_a_task_deleted_right_after_it_was_told_is_told_again(world: World) -> None:
    """The control plane had no time to judge, or it would not ask for the same node once more."""
    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert world.runs.is_reported(FIRST)
    task_made_anew(world, from_version=NEW)

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert world.stops == 1


async def test_what_was_told_is_not_the_result_of_another_upgrade(world: World) -> None:
    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    task_made_anew(world, **OTHERS, from_version=NEW)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ALREADY_AT_TARGET)


async def test_an_old_plan_that_the_disk_does_not_give_back_ends_no_agent(world: World) -> None:
    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    plan = world.root / "var/lib/nodeupgrade/runs" / FIRST / "plan.json"
    plan.unlink()
    plan.mkdir()  # as unreadable as one on a bad sector
    task_made_anew(world, **OTHERS, from_version=NEW)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ALREADY_AT_TARGET)


async def test_a_success_that_somebody_has_undone_since_is_none(world: World) -> None:
    """The node was taken back by hand, so it is upgraded once more."""
    await lost_in_mid_run(world)
    to_its_end(world)
    world.node.disk[PROGRAM] = program(OLD)
    world.node.kubelet.stop()
    world.node.services.start_kubelet()
    world.node.timeline.advance(5.0)
    world.before = world.node.inventory()
    task_made_anew(world)

    def killed(moment: str) -> None:
        if world.stops == 2 and moment == "_clean_up done":
            raise Killed

    world.hook = killed
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet

    status = await world.serve()

    assert (status.phase, world.stops) == (TaskPhase.SUCCEEDED, 2)
    assert world.runs.begun_runs() == [FIRST, SECOND]
    own = world.runs.read_journal(SECOND).records[0]
    assert status.started_at == datetime.fromisoformat(own.at), "what is told is what its own run did"


async def test_a_rollback_is_told_once_and_then_tried_again(world: World) -> None:
    world.node.kubelet.behaviour[NEW] = Behaviour.EXITS
    await lost_in_mid_run(world)
    to_its_end(world)
    del world.node.kubelet.behaviour[NEW]
    task_made_anew(world)

    told = await world.serve()
    task_made_anew(world, run_id=RunId("0123abcd-3"))
    status = await world.serve()

    assert (told.phase, told.reason) == (TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START)
    assert status.phase is TaskPhase.SUCCEEDED
    assert upgraded(world)


@pytest.mark.parametrize("over", [False, True], ids=["going on", "over"])
async def test_a_run_for_another_version_is_finished_and_told_before_anything_is_begun(
    world: World, over: bool
) -> None:
    await lost_in_mid_run(world)
    if over:
        to_its_end(world)
    task_made_anew(world, **OTHERS, to_version=OTHER_VERSION, allow_downgrade=True)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EARLIER_RUN_FOUND)
    assert f"kubelet {OLD} became {NEW}" in status.message
    assert status.containers.unchanged == 4
    assert world.stops == 1
    assert upgraded(world)
    task_made_anew(world, **OTHERS | {"run_id": RunId("ffff0000-10")}, to_version=OTHER_VERSION)
    assert (await world.serve()).reason is not Reason.EARLIER_RUN_FOUND, "it is told once"


@pytest.mark.parametrize(
    "changes",
    [{"action": TaskAction.ABORT}, {"deadline": datetime.now(UTC) - timedelta(seconds=1)}],
    ids=["abort", "deadline"],
)
async def test_a_run_that_goes_on_can_still_be_called_off(world: World, changes: dict[str, Any]) -> None:
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=600)))
    await lost_in_mid_run(world)
    task_made_anew(world, **changes)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.ABORTED)
    assert sorted(world.left_behind()) == [BACKUP]


async def test_attempts_under_an_earlier_name_count(world: World) -> None:
    """It was turned back because a container came; the next attempt is this run's own."""
    sandbox = next(iter(world.node.runtime.sandboxes.values()))
    gone: list[object] = []
    victim = next(c for c in world.node.inventory().running() if c.name == "nginx")

    def comes() -> None:
        made = world.node.runtime.create_container(sandbox, "debug", HashValue("1"))
        world.node.timeline.after(5.0, lambda: gone.append(world.node.runtime.containers.pop(made.id)))

    world.node.calls.before("services.stop kubelet.service", comes)
    world.node.calls.before("services.start kubelet.service", lambda: world.node.runtime.end(victim.id, exit_code=137))
    await lost_in_mid_run(world)
    to_its_end(world)
    task_made_anew(world)

    status = await world.serve()

    assert world.stops == 2
    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.CONTAINER_RESTARTED)
    assert status.containers.restarted_list == (victim.label,)


async def test_a_plan_that_is_begun_just_now_is_attended_to(world: World) -> None:
    """It looked as if nobody had begun it; then its executor is stopped in mid-run, and has to be brought back."""

    def killed(moment: str) -> None:
        if moment == "hand_over done":
            raise Killed

    world.hook = killed
    with pytest.raises(Killed):
        await world.serve()
    world.hook = quiet
    assert world.runs.plans_not_begun() == [FIRST]
    works = world.tick
    world.tick = lambda: None  # type: ignore[method-assign]
    begins_before_it_is_stopped(world, works)
    task_made_anew(world)

    status = await world.serve()

    assert (status.phase, world.stops) == (TaskPhase.SUCCEEDED, 1)
    assert world.moments.count("hand_over") == 2
    assert upgraded(world)


async def test_a_run_that_begins_just_as_it_is_called_off_comes_to_an_end(world: World) -> None:
    works = world.tick
    world.tick = lambda: None  # type: ignore[method-assign]

    def call_off(_moment: str) -> None:
        if units.EXECUTOR in world.node.services.active and world.tick is not works:
            world.kube.wish(action=TaskAction.ABORT)
            begins_before_it_is_stopped(world, works)

    world.hook = call_off

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.ABORTED)
    assert world.left_behind() == {}


def begins_before_it_is_stopped(world: World, works: Callable[[], None] | None = None) -> None:
    """Let the executor begin in the very moment in which it is stopped itself for the first time."""
    tick = works or world.tick

    def begins() -> None:
        world.tick = tick  # type: ignore[method-assign]
        for _ in range(DECISIONS):
            tick()

    world.node.calls.before(f"services.stop {units.EXECUTOR}", begins)


async def test_what_another_agent_has_staged_meanwhile_stays(world: World) -> None:
    """It was not there when this one looked, and its run has begun by the time that this one has something to stage."""
    await lost_once_begun(world)
    directory = world.root / "var/lib/nodeupgrade/runs"
    directory.rename(directory.with_name("elsewhere"))
    task_made_anew(world)
    before = dict(world.node.disk)

    def begins(moment: str) -> None:
        if moment == "finish_earlier_cleanup":
            directory.with_name("elsewhere").rename(directory)

    world.hook = begins

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EXECUTOR_AT_WORK)
    assert world.node.disk == before


async def over_and_cleaning_up(world: World) -> None:
    """An earlier run is over and reported, its executor still cleans up, and another upgrade is wanted."""
    await lost_in_mid_run(world)
    to_its_end(world)
    world.runs.mark_reported(FIRST)
    task_made_anew(world, to_version=OTHER_VERSION)
    world.node.services.active.add(units.EXECUTOR)
    world.tick = lambda: None  # type: ignore[method-assign]


async def test_an_executor_that_still_cleans_up_has_the_node_looked_at_again(world: World) -> None:
    """A reload of systemd that takes minutes, for instance: nobody has to do anything, nor to be frightened."""
    await over_and_cleaning_up(world)
    before = dict(world.node.disk)
    stops: list[str] = []
    world.node.calls.before(f"services.stop {units.EXECUTOR}", lambda: stops.append("stopped"))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EXECUTOR_AT_WORK)
    assert Reason.EXECUTOR_AT_WORK in PASSING
    assert f"earlier run {FIRST} on this node is over, and its executor still cleans up" in status.message
    assert "nothing has to be done" in status.message
    assert "by hand" not in status.message
    assert world.node.disk == before
    assert stops == []


async def test_an_executor_that_ends_while_it_is_looked_at_needs_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await over_and_cleaning_up(world)
    look = ExecutorService._ended_by_executor

    def ends(service: ExecutorService) -> RunId | None:
        world.node.services.active.discard(units.EXECUTOR)
        return look(service)

    monkeypatch.setattr(ExecutorService, "_ended_by_executor", ends)

    status = await world.serve()

    assert status.reason is not Reason.ROLLBACK_FAILED, status.message


@pytest.mark.parametrize("asks_anew", [False, True], ids=["same run", "another run"])
@pytest.mark.parametrize("comes_back", [True, False])
async def test_an_executor_of_which_no_journal_tells_is_never_stopped(
    world: World, *, asks_anew: bool, comes_back: bool
) -> None:
    """Somebody has removed plan and journal, and the agent was started again before the executor made them anew."""
    await lost_in_mid_run(world)
    directory, works = world.root / "var/lib/nodeupgrade/runs", world.tick
    directory.rename(directory.with_name("elsewhere"))
    if asks_anew:
        task_made_anew(world)
    looks: list[str] = []

    def makes_again() -> None:
        looks.append("")
        if comes_back and len(looks) > 2:
            directory.with_name("elsewhere").rename(directory)
            world.tick = works  # type: ignore[method-assign]

    world.tick = makes_again  # type: ignore[method-assign]
    stops: list[str] = []
    world.node.calls.before(f"services.stop {units.EXECUTOR}", lambda: stops.append("stopped"))

    status = await world.serve()

    if comes_back:
        assert status.phase is TaskPhase.SUCCEEDED
        assert upgraded(world)
    else:
        assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ROLLBACK_FAILED)
        assert "an executor runs, and no journal tells what it has begun" in status.message
        assert units.EXECUTOR in world.node.services.active
        assert stops == []


async def test_an_agent_whose_task_asks_for_another_run_has_told_nobody(world: World) -> None:
    def made_anew(_moment: str) -> None:
        if world.stops:
            world.kube.wish(run_id=RunId("0123abcd-2"))

    world.hook = made_anew

    await world.serve()

    assert not world.runs.is_reported(FIRST)


async def test_nothing_is_inherited_where_nothing_was_begun(world: World) -> None:
    world.kube.wish(action=TaskAction.ABORT)

    assert (await world.serve()).reason == Reason.ABORTED
    assert untouched(world)
