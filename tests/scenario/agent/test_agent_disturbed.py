"""An agent's stories when something comes between: outages, second thoughts, losses, and a kill at every moment."""

import shutil
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.cluster.kube_api import NotFoundError, RejectedError, TooLargeError, UnavailableError, WatchEventType
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.executor import units
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.node import DEAD_MAN_TIMER
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan, ShownKubelet
from nodeupgrade.node.run.run import NodeRun
from tests.builders.other_files import KINDS, put_in_place
from tests.doubles.node import Behaviour, Moment, pod_json
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.storage.files import SimulatedFiles
from tests.enumeration import tried
from tests.scenario.agent.harness import NEW, OLD, RUN, Killed, World, make_world, untouched, upgraded

FIRST = RunId(f"{RUN}.1")
SAME_MOMENTS = 6
"""While the agent watches the executor, one look is like the other."""


async def test_an_api_server_that_is_away_is_waited_for_before_the_settle_period(world: World) -> None:
    """Away from the first decision on; then the task says what the run waits for."""
    refused: list[str] = []
    heard: list[bool] = []

    def away(moment: str) -> None:
        if moment == "report_kubelet done" and (told := world.runs.shown_kubelet(FIRST)) is not None:
            heard.append(told.answered)
        if (world.stops and len(refused) < 40) and moment in {"get_task", "patch_task_status", "get_node"}:
            assert world.runs.read_journal(FIRST).first(Step.VERIFY, Mark.DOING) is None
            refused.append(moment)
            raise UnavailableError("the API server does not answer")

    world.hook = away

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert len(refused) == 40
    assert upgraded(world)
    assert (heard[0], heard[-1]) == (False, True), "the executor is told that nobody gets an answer"
    waiting = [each for each in world.kube.statuses if "waiting until the API server shows it" in each.message]
    assert {(each.phase, each.reason) for each in waiting} == {(TaskPhase.VERIFYING, Reason.PROGRESSING)}


@pytest.mark.parametrize("shown", [None, OLD], ids=["no Node", "the old kubelet"])
async def test_the_executor_hears_what_the_api_server_shows_of_the_kubelet(world: World, shown: str | None) -> None:
    node, api = world.node, world.node.kubelet.api
    heard: list[ShownKubelet] = []

    def look(moment: str) -> None:
        if moment == "get_node" and world.stops and len(heard) < 3:
            api.shows = shown
            if shown is None:
                raise NotFoundError("there is no such Node")
        if moment == "report_kubelet done" and (told := world.runs.shown_kubelet(FIRST)) is not None:
            heard.append(told)
            api.shows = NEW if len(heard) == 3 else shown

    world.hook = look

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert [(each.answered, each.version) for each in heard] == [*[(True, shown)] * 3, (True, NEW)]
    assert all(0 < each.at <= node.ports.clock.awake().seconds for each in heard)


async def test_nothing_is_begun_before_the_control_plane_heard_of_it(world: World) -> None:
    """What was never heard of counts as never begun, so it must not be."""

    def deaf(moment: str) -> None:
        if moment == "patch_task_status":
            if world.moments.count("sleep") > 20:
                raise Killed
            raise UnavailableError("the API server does not answer")

    world.hook = deaf

    with pytest.raises(Killed):
        await world.serve()

    assert world.runs.read_plan(FIRST) is not None
    assert world.stops == 0
    assert units.EXECUTOR not in world.node.services.active


async def test_a_task_that_vanishes_while_being_planned_is_nobodys_wish(world: World) -> None:
    def vanish(moment: str) -> None:
        if moment == "write_plan":
            world.kube.task = None

    world.hook = vanish

    with pytest.raises(AssertionError):
        await world.serve()  # there is no status to return

    assert untouched(world)


@pytest.mark.parametrize("changes", [{"run_id": RunId("0123abcd-2")}, {"action": TaskAction.RELEASE}])
async def test_a_run_that_is_not_asked_for_is_not_begun(world: World, changes: dict[str, Any]) -> None:
    world.kube.wish(**changes)

    assert await world.serve() == TaskStatus()
    assert untouched(world)


PAST = datetime.now(UTC) - timedelta(seconds=1)
CALLED_OFF = [{"action": TaskAction.ABORT}, {"deadline": PAST}]


@pytest.mark.parametrize("changes", CALLED_OFF, ids=["abort", "deadline"])
@pytest.mark.parametrize("when", ["get_task", "_stage", "write_plan done", "patch_task_status done"])
async def test_what_is_called_off_before_it_began_never_begins(
    world: World, when: str, changes: dict[str, Any]
) -> None:
    def call_off(moment: str) -> None:
        if moment == when:
            world.kube.wish(**changes)

    world.hook = call_off

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.ABORTED)
    assert untouched(world)


async def test_a_node_whose_clock_is_fast_has_all_its_time(world: World) -> None:
    """By its own clock the deadline passed half an hour ago, by that of the API server it is still to come."""
    world.kube.ahead = timedelta(hours=-1)
    world.kube.wish(deadline=datetime.now(UTC) - timedelta(minutes=30))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.SUCCEEDED, Reason.SUCCEEDED)


@pytest.mark.parametrize("changes", CALLED_OFF, ids=["abort", "deadline"])
async def test_what_is_called_off_later_is_passed_on(world: World, changes: dict[str, Any]) -> None:
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=600)))

    def call_off(_moment: str) -> None:
        if world.stops:
            world.kube.wish(**changes)

    world.hook = call_off

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.ABORTED)
    assert world.node.disk[PROGRAM] == program(OLD)
    assert world.restarted == []


async def test_an_executor_that_cannot_go_on_is_reported(world: World) -> None:
    def trouble(moment: str) -> None:
        if world.stops and moment == "sleep":
            world.executor_works = False
            world.runs.report_trouble(FIRST, "the plan and the node disagree")

    world.hook = trouble

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert "the plan and the node disagree" in status.message
    assert status.finished_at is not None


@pytest.mark.parametrize("watched", [False, True])
async def test_a_rollback_that_nothing_lets_end_is_reported_and_ends_once_it_can(world: World, watched: bool) -> None:
    """As long as no kubelet runs the executor goes on, whether or not an agent still watches it."""

    async def retry(run: str) -> TaskStatus:
        world.kube.wish(run_id=RunId(run))
        world.settings = replace(world.settings, run_id=RunId(run))
        return await world.serve()

    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS
    stuck = [True]

    def interrupt(name: str, _number: int, when: Moment) -> None:
        if stuck and name == "services.unmask kubelet.service" and when is Moment.BEFORE and len(starts()) > 0:
            raise StepFailed("no process can be created")

    def starts() -> list[str]:
        return [effect for effect in world.node.calls.effects if effect == "services.start kubelet.service"]

    world.node.calls.interrupt = interrupt

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert "undoing stop-kubelet failed" in status.message
    assert "no process can be created; it is tried again every minute" in status.message
    assert status.finished_at is not None
    assert world.node.kubelet.process is None

    stuck.clear()
    if watched:
        status = await retry("0123abcd-2")
        assert status.phase is TaskPhase.ROLLED_BACK, status.message
    while world.runs.unfinished() is not None:
        world.tick()
    world.node.kubelet.behaviour[NEW] = Behaviour.WELL

    assert (await retry("0123abcd-3")).phase is TaskPhase.SUCCEEDED
    assert world.restarted == []


async def test_before_an_agent_leaves_a_rollback_that_goes_on_it_tells_the_executor_which_pods_came(
    world: World,
) -> None:
    """Without the word the old kubelet replaces their containers, once the cause is gone."""
    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS
    late, stuck = parse_pod(pod_json("late", "app")), [True]
    start = "services.start kubelet.service"
    world.node.calls.before(start, lambda: world.node.timeline.after(0.2, lambda: world.node.kubelet.pods.append(late)))

    def interrupt(name: str, _number: int, when: Moment) -> None:
        if stuck and name == f"files.replace {PROGRAM}" and when is Moment.BEFORE and start in world.node.calls.effects:
            raise StepFailed("the disk is read-only")

    world.node.calls.interrupt = interrupt

    status = await world.serve()
    assert status.phase is TaskPhase.ROLLBACK_FAILED
    assert "undoing swap-binary failed" in status.message

    stuck.clear()
    while world.runs.unfinished() is not None:
        world.tick()

    assert world.node.kubelet.process is not None
    assert world.node.kubelet.replaced == []


async def test_a_damaged_journal_is_reported_rather_than_met_again_and_again(world: World) -> None:
    def damage(moment: str) -> None:
        journal = world.root / "var/lib/nodeupgrade/runs" / FIRST / "journal"
        if world.executor_works and moment == "sleep" and world.stops:
            world.executor_works = False
            journal.write_bytes(b"x" + journal.read_bytes())

    world.hook = damage

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert "record 1 is damaged" in status.message
    assert f"remove the run's directory below {RUNS}" in status.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plan.json", "journal"])
async def test_what_lies_in_place_of_plan_or_journal_is_named_with_its_place_and_the_remedy(
    world: World, name: str, kind: str
) -> None:
    """The executor has died, and the next agent finds its run."""

    def exchange(moment: str) -> None:
        if world.executor_works and moment == "sleep" and world.stops:
            world.executor_works = False
            put_in_place(world.root / f"var/lib/nodeupgrade/runs/{FIRST}/{name}", kind)
            raise Killed

    world.hook = exchange
    with pytest.raises(Killed):
        await world.serve()

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert f"(/var/lib/nodeupgrade/runs/{FIRST}/{name})" in status.message
    assert f"remove the run's directory below {RUNS}" in status.message


@pytest.mark.parametrize("kind", KINDS)
async def test_what_lies_in_place_of_a_journal_for_a_moment_is_waited_for(world: World, kind: str) -> None:
    """An executor that lives replaces it, all but a directory, which it goes on without."""
    journal = world.root / "var/lib/nodeupgrade/runs" / FIRST / "journal"
    taken: list[bytes] = []

    def take(moment: str) -> None:
        if moment == "read_journal" and not taken and world.stops:
            taken.append(journal.read_bytes())
            put_in_place(journal, kind)
        elif taken and (journal.is_symlink() or not journal.is_file()):
            journal.rmdir() if kind == "directory" else journal.unlink()
            journal.write_bytes(taken[0])

    world.hook = take

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert taken


@pytest.mark.parametrize("changes", [{}, *CALLED_OFF], ids=["wanted", "abort", "deadline"])
async def test_a_journal_that_somebody_has_removed_is_no_proof_that_nothing_was_begun(
    world: World, changes: dict[str, Any]
) -> None:
    """An executor that lives makes it again; here it has died as well. Nothing is taken from under one that lives."""
    told: list[int] = []

    def remove(moment: str) -> None:
        if world.stops and not told and moment == "sleep":
            told.append(len(world.kube.statuses))
            world.executor_works = False
            shutil.rmtree(world.root / "var/lib/nodeupgrade/runs")
            world.kube.wish(**changes)

    world.hook = remove

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert f"somebody has removed the journal of run {FIRST}" in status.message
    assert DEAD_MAN_TIMER in world.node.services.active
    since = world.kube.statuses[told[0] :]
    assert not [each for each in since if "untouched" in each.message]


async def test_a_journal_that_is_gone_for_a_moment_is_waited_for(world: World) -> None:
    journal = world.root / "var/lib/nodeupgrade/runs" / FIRST / "journal"
    known: list[bytes] = []

    def remove(moment: str) -> None:
        if moment == "read_journal" and world.stops and not known:
            known.append(journal.read_bytes())
            journal.unlink()
        elif moment == "read_journal done" and known and not journal.exists():
            journal.write_bytes(known[0])

    world.hook = remove

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert known
    assert upgraded(world)


async def test_an_executor_that_is_gone_is_started_again(world: World) -> None:
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=2), kubelet_down_budget=timedelta(seconds=600)))

    def gone_once(_moment: str) -> None:
        if world.stops == 1 and world.moments.count("hand_over") == 1:
            world.node.services.active.discard(units.EXECUTOR)

    world.hook = gone_once

    await world.serve()

    assert world.moments.count("hand_over") == 2
    assert upgraded(world)


async def test_a_later_agent_starts_an_executor_that_is_gone_at_once(world: World) -> None:
    """With the kubelet stopped there is no time to wait and see."""

    def lost(moment: str) -> None:
        if moment == "sleep" and world.stops:
            world.node.services.active.discard(units.EXECUTOR)
            raise Killed

    world.hook = lost
    with pytest.raises(Killed):
        await world.serve()
    world.hook = lambda _moment: None
    known = len(world.moments)

    await world.serve()

    later = world.moments[known:]
    assert later.index("hand_over") < later.index("sleep")
    assert upgraded(world)


async def test_an_executor_that_cannot_be_started_ends_the_run_before_it_began(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.node.services.start

    def refuse(unit: str, *, wait: bool = True) -> None:
        if unit == units.EXECUTOR:
            raise StepFailed(f"systemd refuses {unit}")
        start(unit, wait=wait)

    monkeypatch.setattr(world.node.services, "start", refuse)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert "systemd refuses" in status.message
    assert untouched(world)


async def test_a_damaged_bundle_ends_the_run_before_it_began(world: World) -> None:
    (world.settings.bundle / "bin/python3").write_bytes(b"something else")

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert untouched(world)


async def test_a_plan_that_cannot_be_written_ends_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_store: RunStore, _plan: RunPlan) -> None:
        raise StepFailed("no space left on device")

    monkeypatch.setattr(RunStore, "write_plan", full)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert untouched(world)


async def test_an_api_server_that_says_no_ends_the_run(world: World) -> None:
    def forbidden(moment: str) -> None:
        if moment == "list_pods_on_node":
            raise RejectedError("pods is forbidden")

    world.hook = forbidden

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert "pods is forbidden" in status.message
    assert untouched(world)


@pytest.mark.parametrize("during", [False, True], ids=["before a run", "during a run"])
async def test_pods_that_are_too_large_for_an_agents_memory_have_the_node_refused(world: World, during: bool) -> None:
    """Whoever may create pods can have one node refused in many ways; a node that fails would stop the rollout."""

    def too_large(moment: str) -> None:
        if moment == "list_pods_on_node" and (world.stops or not during):
            raise TooLargeError("the answer has more than 16777216 bytes")

    world.hook = too_large

    status = await world.serve()

    if during:
        assert status.phase is TaskPhase.SUCCEEDED, status.message
        return
    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.PODS_TOO_LARGE)
    assert untouched(world)


async def test_killed_at_any_moment_the_next_agent_finishes_the_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await _served(tmp_path / "whole", monkeypatch, kill_at=None)

    for number, moment in tried(enumerate(whole.moments)):
        if whole.moments[:number].count(moment) >= SAME_MOMENTS:
            continue
        world = await _served(tmp_path / str(number), monkeypatch, kill_at=number)
        assert world.status.phase is TaskPhase.SUCCEEDED, f"killed at {number}, {moment}: {world.status.message}"
        assert upgraded(world), f"killed at {number}, {moment}: {sorted(world.left_behind())}"
        assert world.stops == 1, f"killed at {number}, {moment}"
        assert world.runs.unfinished() is None


async def _served(root: Path, monkeypatch: pytest.MonkeyPatch, kill_at: int | None) -> World:
    world = make_world(root, monkeypatch)

    def kill(_moment: str) -> None:
        if len(world.moments) - 1 == kill_at:
            raise Killed

    world.hook = kill
    if kill_at is None:
        await world.serve()
        return world
    with pytest.raises(Killed):
        await world.serve()
    world.tick()  # the executor does not wait for the next agent
    await world.serve()
    return world


async def test_an_image_brings_the_kubelet_by_way_of_another_pod(world: World) -> None:
    """Here what that pod has copied is missing."""
    world.kube.wish(
        artifact=TaskArtifact(kind=ArtifactKind.IMAGE, ref="registry.example/kubelet@sha256:00", path="/kubelet")
    )
    world.settings = replace(world.settings, artifact_pod=PodUid("u"))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ARTIFACT_UNAVAILABLE)
    assert "/kubelet could not be taken from registry.example/kubelet" in status.message
    assert untouched(world)


@pytest.mark.parametrize("asks", [False, True])
async def test_the_executor_is_told_which_pods_were_deleted_if_it_asks(world: World, asks: bool) -> None:
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))

    def delete(pod: dict[str, Any]) -> None:
        if world.stops and pod["metadata"]["name"] == "web":
            pod["metadata"] = pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    def ask(moment: str) -> None:
        if asks and moment == "sleep" and world.stops:
            world.runs.ask_for_owner_changes(FIRST)

    world.kube.changed = delete
    world.hook = ask

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED

    assert world.runs.owner_changes(FIRST).deleted == (("uid-web",) if asks else ())
    at_work = world.moments[world.moments.index("hand_over") : world.moments.index("_clean_up")]
    assert ("list_pods_on_node" in at_work) is asks, "who is not asked does not look"


async def test_the_executor_is_told_unasked_what_an_owner_changed(world: World) -> None:
    """A kubelet may act on it before the executor can ask."""
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))
    web = next(pod for pod in world.node.kubelet.pods if pod.ref.name == "web").raw
    other = [{**each, "image": "other:2"} for each in web["spec"]["containers"][:1]] + web["spec"]["containers"][1:]
    reports = iter([{**web, "spec": {**web["spec"], "containers": other}}])

    def report(moment: str) -> None:
        if moment == "sleep" and world.stops and (pod := next(reports, None)):
            world.kube.report(pod, change=WatchEventType.MODIFIED)

    world.hook = report

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED

    [spec] = world.runs.owner_changes(FIRST).specs
    assert (spec.pod, spec.name) == ("uid-web", web["spec"]["containers"][0]["name"])


@pytest.mark.parametrize(
    ("status", "told"),
    [({"phase": "Running"}, True), ({"phase": "Failed", "reason": "OutOfcpu"}, False)],
    ids=["by force", "after a kubelet failed it"],
)
async def test_the_executor_is_told_of_pods_that_were_removed_at_once(
    world: World, status: dict[str, str], told: bool
) -> None:
    """With a grace period of 0 the API server removes a pod at once: it is in no list then.

    The same happens to a pod whose phase is Failed, for which a kubelet is to blame.
    """
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))
    gone = next(pod for pod in world.node.kubelet.pods if pod.ref.name == "web").raw

    def ask(moment: str) -> None:
        if moment == "sleep" and world.stops and not world.kube.hidden:
            world.kube.hidden.add("web")
            world.kube.report({**gone, "status": status}, change=WatchEventType.DELETED)
            world.runs.ask_for_owner_changes(FIRST)

    world.hook = ask

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED

    assert world.runs.owner_changes(FIRST).deleted == (("uid-web",) if told else ())


@pytest.mark.parametrize(("early", "crowded"), [(False, False), (True, False), (True, True)])
async def test_the_executor_is_told_the_hashes_of_pods_that_came_if_it_asks(
    world: World, early: bool, crowded: bool
) -> None:
    """Here it has to ask early: no agent says anything while this executor waits.

    Annotations that somebody adds to other pods after the examination change nothing about that.
    """
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))
    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS
    late = parse_pod(pod_json("late", "app"))
    start = "services.start kubelet.service"
    world.node.calls.before(start, lambda: world.node.timeline.after(0.2, lambda: world.node.kubelet.pods.append(late)))

    def ask(moment: str) -> None:
        if early and moment == "sleep" and world.stops:
            world.kube.crowded = crowded
            world.runs.ask_for_newcomers(FIRST)

    world.hook = ask

    assert (await world.serve()).phase is TaskPhase.ROLLED_BACK

    told = world.runs.newcomers(FIRST)
    assert told is not None
    assert told.pods == ("uid-late",)
    assert world.node.kubelet.replaced == ([] if early else ["default/late/app"])


async def test_the_executor_is_told_of_an_image_that_was_set_before_the_stop_and_back_after_the_start(
    world: World,
) -> None:
    """To the plan as it was written, nothing has changed; to the one that the executor follows, the image has."""
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))
    before, kubelet = world.node.kubelet.pods, world.node.kubelet
    [web] = (pod for pod in before if pod.ref.name == "web")
    raw = deepcopy(dict(web.raw))
    raw["spec"]["containers"][0]["image"] = "registry.example/another:2"
    after = [parse_pod(raw), *(pod for pod in before if pod is not web)]
    stop, start = "services.mask kubelet.service", "services.start kubelet.service"
    world.node.calls.before(stop, lambda: setattr(kubelet, "pods", after))
    world.node.calls.durations[stop] = 2.0
    world.node.calls.before(start, lambda: world.node.timeline.after(0.2, lambda: setattr(kubelet, "pods", before)))

    def ask(moment: str) -> None:
        if moment == "sleep" and world.stops:
            world.runs.ask_for_newcomers(FIRST)

    world.hook = ask

    await world.serve()

    told = world.runs.newcomers(FIRST)
    assert told is not None
    assert told.pods == ("uid-web",)
    assert {c.name for c in told.containers} >= {web.containers[-1].name}


@pytest.mark.parametrize("turned_back", [False, True])
async def test_an_executor_that_is_stopped_before_it_has_cleaned_up_leaves_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, turned_back: bool
) -> None:
    """The agent stops it as soon as it has recorded the end."""
    left = list[tuple[object, ...]]()
    for stopped in (False, True):
        tidied = set[PurePosixPath]()
        monkeypatch.setattr(SimulatedFiles, "tidy", lambda _files, path, tidied=tidied: tidied.add(path))
        if stopped:
            monkeypatch.setattr(NodeRun, "_clean_up", lambda *_: None)
        (root := tmp_path / str(stopped)).mkdir()
        world = make_world(root, monkeypatch)
        if turned_back:
            abort = partial(world.kube.wish, action=TaskAction.ABORT)
            world.node.calls.failpoints[at(Step.AWAIT_NODE_STATUS, When.ANNOUNCED)] = abort

        status = await world.serve()

        assert status.phase is (TaskPhase.ROLLED_BACK if turned_back else TaskPhase.SUCCEEDED)
        files = sorted(path.relative_to(root) for path in root.rglob("*"))
        units_left = (world.node.services.active, world.node.services.unit)
        left.append((files, world.node.disk, units_left, world.node.shield.raised(), tidied))

    assert left[0] == left[1]


async def test_what_cannot_be_cleaned_up_at_first_is_tried_again(world: World) -> None:
    def fails_twice(moment: str) -> None:
        if moment == "_clean_up" and world.moments.count(moment) <= 2:
            raise StepFailed("cannot stop nodeupgrade-executor.service because its job was cancelled")

    world.hook = fails_twice

    status = await world.serve()

    assert (status.phase, world.moments.count("_clean_up")) == (TaskPhase.SUCCEEDED, 3)
    assert upgraded(world)


async def test_what_can_never_be_cleaned_up_keeps_nobody_waiting(world: World) -> None:
    def fails(moment: str) -> None:
        if moment == "_clean_up":
            raise StepFailed("systemd does not answer")

    world.hook = fails

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED


async def test_a_deletion_is_remembered_although_its_pod_has_ended_before_the_executor_is_told(world: World) -> None:
    """A finalizer keeps the pod in the API, without a grace period from its end on, as one that failed before."""
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=30)))
    web = next(pod for pod in world.node.kubelet.pods if pod.ref.name == "web").raw
    at = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    events = iter(
        {
            **web,
            "metadata": {**web["metadata"], **at, "deletionGracePeriodSeconds": seconds},
            "status": {"phase": phase},
        }
        for seconds, phase in ((30, "Running"), (0, "Failed"))
    )

    def report(moment: str) -> None:
        if moment == "sleep" and world.stops:
            for pod in events:
                world.kube.report(pod, change=WatchEventType.MODIFIED)

    world.hook = report

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED

    assert world.runs.owner_changes(FIRST).deleted == ("uid-web",)
