"""An agent's stories where a program prints the kubelet's credentials, as on EKS and GKE."""

import json
from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import GuardState, TaskPhase
from nodeupgrade.node.node import KUBELET_ENVIRONMENT
from tests.scenario.agent.guarded import Make
from tests.scenario.agent.harness import World, untouched, upgraded

API = "client.authentication.k8s.io/v1beta1"
KUBECONFIG = f"""
current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters: [{{name: k, cluster: {{server: "https://api:6443"}}}}]
users: [{{name: u, user: {{exec: {{apiVersion: {API}, command: aws-iam-authenticator, args: [token]}}}}}}]
""".encode()


def answer(status: Json) -> bytes:
    return json.dumps({"apiVersion": API, "kind": "ExecCredential", "status": status}).encode()


@pytest.fixture
def world(make_guarded: Make) -> World:
    """A node whose kubelet has its credentials from a program, which prints a token."""
    made = make_guarded()
    made.node.disk["/etc/kubernetes/kubelet.conf"] = made.disk["/etc/kubernetes/kubelet.conf"] = KUBECONFIG
    made.control_plane.output = answer({"token": "a-secret-token"})
    return made


def wish(world: World, action: TaskAction, policy: GuardPolicy) -> None:
    world.kube.wish(action=action, verify=VerifySettings(settle=timedelta(seconds=2), readiness_guard=policy))


def unconfirmed(world: World) -> list[Json]:
    return [vars(each) for each in world.status.hazards if each.reason == Reason.READINESS_GUARD_UNAVAILABLE]


@pytest.mark.parametrize("status", [{"token": "a-secret-token"}, {"clientCertificateData": "c", "clientKeyData": "k"}])
async def test_what_it_prints_confirms_a_required_guard(world: World, status: dict[str, object]) -> None:
    wish(world, TaskAction.UPGRADE, GuardPolicy.REQUIRE)
    world.control_plane.output = answer(status)

    found = await world.serve()

    assert found.phase is TaskPhase.SUCCEEDED, found.message
    assert found.guard.state is GuardState.IN_FORCE
    assert not unconfirmed(world)
    assert world.control_plane.printed, "it was never asked"
    assert upgraded(world)


async def test_a_plan_says_that_all_is_well_and_touches_nothing(world: World) -> None:
    wish(world, TaskAction.PRECHECK, GuardPolicy.REQUIRE)
    before = world.everything()

    found = await world.serve()

    assert found.phase is TaskPhase.PRECHECKED, found.message
    assert not unconfirmed(world)
    assert world.everything() == before
    assert untouched(world)


FAILURES = [
    (b"", "what it prints is not JSON"),
    (answer({}), "it prints neither a token nor a certificate"),
    (answer({"clientCertificateData": "a-secret-token"}), "it prints a certificate without a key"),
]


@pytest.mark.parametrize(("output", "why"), FAILURES)
@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
@pytest.mark.parametrize("policy", [GuardPolicy.AUTO, GuardPolicy.REQUIRE])
async def test_what_cannot_be_used_is_said_before_anything_is_touched(
    world: World, action: TaskAction, policy: GuardPolicy, output: bytes, why: str
) -> None:
    wish(world, action, policy)
    world.control_plane.output = output

    status = await world.serve()

    (hazard,) = [each for each in status.hazards if each.reason == Reason.READINESS_GUARD_UNAVAILABLE]
    assert f"cannot use the credentials in /etc/kubernetes/kubelet.conf: {why}" in hazard.detail
    assert hazard.warning is (policy is GuardPolicy.AUTO)
    if policy is GuardPolicy.REQUIRE:
        assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.READINESS_GUARD_UNAVAILABLE)
        assert untouched(world)
        return
    assert status.phase is (TaskPhase.PRECHECKED if action is TaskAction.PRECHECK else TaskPhase.SUCCEEDED)
    if action is TaskAction.UPGRADE:
        first = next(told for told in world.kube.statuses if told.hazards)
        assert first.phase in {TaskPhase.STAGED, TaskPhase.RUNNING}
        assert hazard in first.hazards
        assert status.guard.state is GuardState.NOT_IN_FORCE


async def test_credentials_that_the_api_server_does_not_know_are_said(world: World) -> None:
    wish(world, TaskAction.PRECHECK, GuardPolicy.REQUIRE)
    world.control_plane.known = False

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.READINESS_GUARD_UNAVAILABLE)
    assert "prints credentials that the API server refuses: HTTP 401" in status.message


async def test_it_is_never_asked_while_no_kubelet_runs(world: World) -> None:
    """However slow it is: nothing of the time without a kubelet is spent on it."""
    wish(world, TaskAction.UPGRADE, GuardPolicy.REQUIRE)
    during: list[int] = []
    world.hook = lambda moment: during.append(len(world.control_plane.printed)) if moment == "hand_over done" else None

    await world.serve()

    assert upgraded(world)
    assert during == [len(world.control_plane.printed)]


async def test_the_lease_keeper_gets_the_environment_of_the_kubelet_for_as_long_as_the_run(world: World) -> None:
    found: list[bytes | None] = []
    world.hook = lambda moment: (
        found.append(world.node.disk.get(str(KUBELET_ENVIRONMENT))) if moment == "hand_over done" else None
    )

    await world.serve()

    assert [json.loads(data or b"") for data in found] == [{"PATH": "/usr/bin:/bin"}]
    assert str(KUBELET_ENVIRONMENT) not in world.node.disk


async def test_a_kubelet_with_a_certificate_leaves_no_environment(make_guarded: Make) -> None:
    world = make_guarded()
    found: list[bool] = []
    world.hook = lambda _: found.append(str(KUBELET_ENVIRONMENT) in world.node.disk)

    await world.serve()

    assert upgraded(world)
    assert set(found) == {False}


async def test_no_credential_is_told_or_kept(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.serve()

    assert upgraded(world)
    kept = [path for path in world.root.rglob("*") if path.is_file() and b"a-secret-token" in path.read_bytes()]
    assert kept == []
    assert [path for path, data in world.node.disk.items() if b"a-secret-token" in data] == []
    assert "a-secret-token" not in str(world.kube.statuses) + "".join(capsys.readouterr())
