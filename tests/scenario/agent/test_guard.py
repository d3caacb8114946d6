"""An agent's stories around the readiness guard: asking, waiting, trying, watching, and what the task is told of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.api.task.spec import GuardGrant, TaskAction
from nodeupgrade.api.task.status import GuardState, TaskPhase
from nodeupgrade.cluster.kube_api import UnavailableError
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.agent import guard_trials
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.doubles.node.services import SimulatedServices
from tests.enumeration import tried
from tests.scenario.agent.guarded import EXPOSURE, PAST, Make, at, granted, impossible, kill
from tests.scenario.agent.harness import Killed, World, quiet, untouched, upgraded


@pytest.fixture
def world(make_guarded: Make) -> World:
    return make_guarded()


def required(world: World) -> None:
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=2), readiness_guard=GuardPolicy.REQUIRE))


def guards(world: World) -> list[GuardState | None]:
    """What was told of the guard, each once."""
    return list(dict.fromkeys(status.guard.state for status in world.kube.statuses))


async def test_a_guarded_node_is_upgraded(world: World) -> None:
    required(world)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert (status.guard.state, status.guard.detail) == (GuardState.IN_FORCE, "")
    assert status.guard.exposure_seconds == EXPOSURE
    assert guards(world) == [None, GuardState.ASKED, GuardState.IN_FORCE]
    assert world.control_plane.asked == [status.guard.ask]
    assert world.control_plane.tried == ["/api/v1/nodes/node-a/status", "/api/v1/namespaces/default/pods/web/status"]
    phases = list(dict.fromkeys(told.phase for told in world.kube.statuses))
    assert phases.index(TaskPhase.STAGED) < phases.index(TaskPhase.VERIFYING)
    assert world.moments.index("stage_bundle") < world.moments.index("_try") < world.moments.index("hand_over")
    assert upgraded(world)


async def test_a_guard_that_nobody_wants_is_not_asked_for(world: World) -> None:
    world.kube.wish(guard=GuardGrant())

    status = await world.serve()

    assert guards(world) == [None]
    assert TaskPhase.STAGED not in [told.phase for told in world.kube.statuses]
    assert status.phase is TaskPhase.SUCCEEDED


async def test_a_guard_may_take_a_moment_to_be_heard_of(world: World) -> None:
    world.control_plane.in_force_after = 3

    assert (await world.serve()).guard.state is GuardState.IN_FORCE
    assert world.control_plane.tried.count("/api/v1/nodes/node-a/status") == 4


async def test_a_busy_systemd_says_nothing_about_the_guard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, status, failures = guard_trials._try, SimulatedServices.status, ["no answer within 10 s"] * 2

    def busy(services: SimulatedServices, unit: str) -> UnitStatus:
        if failures:
            raise StepFailed(failures.pop())
        return status(services, unit)

    def asked(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(SimulatedServices, "status", busy)
            return trial(*given)

    monkeypatch.setattr(guard_trials, "_try", asked)
    required(world)

    assert (await world.serve()).guard.state is GuardState.IN_FORCE
    assert not failures


def cannot_be_raised(world: World) -> None:
    world.control_plane.answers = impossible


def never_in_force(world: World) -> None:
    world.control_plane.in_force_after = 10_000


def unusable(world: World) -> None:
    world.control_plane.usable = False


LACKS = [
    (cannot_be_raised, "the control plane cannot raise it"),
    (never_in_force, "the kubelet may report node node-a unready"),
    (unusable, "it cannot be tried as the kubelet: cannot use the credentials in /etc/kubernetes/kubelet.conf"),
]


@pytest.mark.parametrize(("lack", "detail"), LACKS)
@pytest.mark.parametrize("policy", [GuardPolicy.AUTO, GuardPolicy.REQUIRE])
async def test_without_the_guard(world: World, lack: Callable[[World], None], detail: str, policy: GuardPolicy) -> None:
    """Where it may, the upgrade goes on and says why there is no guard; where it may not, nothing is touched."""
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=2), readiness_guard=policy))
    lack(world)

    status = await world.serve()

    assert (status.guard.state, status.guard.detail) == (GuardState.NOT_IN_FORCE, detail)
    if policy is GuardPolicy.AUTO:
        assert status.phase is TaskPhase.SUCCEEDED
        assert upgraded(world)
    else:
        assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.READINESS_GUARD_UNAVAILABLE)
        assert status.message == f"{detail}; the node is untouched"
        assert untouched_but_for_the_bundle(world)


def untouched_but_for_the_bundle(world: World) -> bool:
    return untouched(world) and "hand_over" not in world.moments


CALLED_OFF = [{"action": TaskAction.ABORT}, {"deadline": PAST}]


@pytest.mark.parametrize("changes", CALLED_OFF, ids=["abort", "deadline"])
@pytest.mark.parametrize("moment", ["sleep", "_try"], ids=["waiting", "trying"])
async def test_whoever_waits_can_be_called_off(world: World, moment: str, changes: dict[str, Any]) -> None:
    if moment == "sleep":
        world.control_plane.answers = None
    world.hook = at(moment, lambda: world.kube.wish(**changes))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.ABORTED)
    assert untouched_but_for_the_bundle(world)


async def test_whoever_waits_can_be_released(world: World) -> None:
    world.control_plane.answers = None
    world.hook = at("sleep", lambda: world.kube.wish(action=TaskAction.RELEASE))

    assert (await world.serve()).phase is TaskPhase.STAGED
    assert untouched_but_for_the_bundle(world)


async def test_without_an_api_server_the_agent_waits_on(world: World) -> None:
    """However long nobody answers, the node is not touched; an answer of long ago is asked for anew."""
    refused: list[str] = []

    def away(moment: str) -> None:
        if "_try" in world.moments and len(refused) < 40 and moment == "get_task":
            refused.append(moment)
            assert world.stops == 0
            raise UnavailableError("the API server does not answer")

    world.hook = away

    assert (await world.serve()).guard.state is GuardState.IN_FORCE
    assert len(refused) == 40
    assert len(set(world.control_plane.asked)) == 2
    assert upgraded(world)


@pytest.mark.parametrize("moment", ["get_task", "list_pods_on_node"], ids=["before the answer", "while trying"])
async def test_an_api_server_that_was_away_meanwhile_is_no_reason_to_go_without(world: World, moment: str) -> None:
    """What it answered long ago is worth nothing by now, and that it cannot be asked says nothing about the guard."""
    refused: list[str] = []

    def away(passing: str) -> None:
        if world.control_plane.asked and len(refused) < 40 and passing == moment:
            refused.append(passing)
            world.control_plane.in_force_after = 0 if len(refused) == 40 else 10_000
            raise UnavailableError("the API server does not answer")

    world.hook = away

    assert (await world.serve()).guard.state is GuardState.IN_FORCE
    assert len(refused) == 40
    assert len(world.control_plane.asked) > 1
    assert upgraded(world)


async def test_a_replaced_agent_asks_again(world: World) -> None:
    world.control_plane.answers = None
    world.hook = at("sleep", kill)
    with pytest.raises(Killed):
        await world.serve()
    world.hook, world.control_plane.answers = quiet, granted

    status = await world.serve()

    assert len(world.control_plane.asked) == 2
    assert status.guard.ask == world.control_plane.asked[1]
    assert upgraded(world)


@pytest.mark.parametrize("moment", ["hand_over done", "sleep", "_clean_up"])
async def test_an_agent_replaced_after_handing_over_does_not_ask_and_knows(world: World, moment: str) -> None:
    required(world)
    handed_over = "hand_over done"
    world.hook = lambda passing: kill() if passing == moment and handed_over in world.moments else None
    with pytest.raises(Killed):
        await world.serve()
    world.hook, world.control_plane.answers = quiet, None

    status = await world.serve()

    assert len(world.control_plane.asked) == 1
    assert status.guard.state is GuardState.IN_FORCE
    assert upgraded(world)


async def test_killed_at_any_moment_no_kubelet_is_stopped_without_the_guard(make_guarded: Make) -> None:
    whole = make_guarded()
    await whole.serve()

    first = [number for number, moment in enumerate(whole.moments) if moment not in whole.moments[:number]]
    for number in tried(first, 2):
        moment = whole.moments[number]
        world = make_guarded()

        def kill_here(_passing: str, at: int = number, world: World = world) -> None:
            if len(world.moments) - 1 == at:
                raise Killed

        world.hook = kill_here
        with pytest.raises(Killed):
            await world.serve()
        world.tick()  # the executor does not wait for the next agent
        status = await world.serve()
        assert status.guard.state is GuardState.IN_FORCE, f"killed at {number}, {moment}: {status.guard}"
        assert len(world.control_plane.asked) <= 2, f"killed at {number}, {moment}"
        assert upgraded(world), f"killed at {number}, {moment}: {status.message}"
        assert world.stops == 1


async def test_a_second_attempt_asks_again(world: World) -> None:
    sandbox = next(iter(world.node.runtime.sandboxes.values()))
    gone: list[object] = []

    def comes() -> None:
        made = world.node.runtime.create_container(sandbox, "debug", HashValue("1"))
        world.node.timeline.after(1.0, lambda: gone.append(world.node.runtime.containers.pop(made.id)))

    world.node.calls.before("services.stop kubelet.service", comes)

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert world.stops == 2
    assert len(world.control_plane.asked) == 2
