from dataclasses import replace

import pytest

from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.cluster import owner_changes
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory
from nodeupgrade.node.verification.ended_containers import Evidence, divide, may_be_harmless
from nodeupgrade.node.verification.verification import unplanned
from tests.doubles.node import SimulatedNode, plan_for, pod_json

NODE = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx", "log"), pod_json("db", "postgres")])
PLAN: RunPlan = plan_for(NODE, "v1.33.13")
NGINX = next(c for c in PLAN.baseline.containers if c.name == "nginx")
NOBODY_ASKED = Evidence(asked=frozenset())


def ended(exit_code: int | None = 1, of: ContainerInstance = NGINX) -> ContainerInstance:
    return replace(of, state=ContainerState.EXITED, process=None, exit_code=exit_code)


def node_with(*changed: ContainerInstance, ready: bool = True) -> Inventory:
    """The planned node, but for these containers; ``ready`` says what became of nginx's sandbox."""
    ids = {c.id for c in changed}
    return Inventory(
        containers=(*(c for c in PLAN.baseline.containers if c.id not in ids), *changed),
        sandboxes=tuple(replace(s, ready=ready or s.id != NGINX.sandbox_id) for s in PLAN.baseline.sandboxes),
    )


def damage(now: Inventory, evidence: Evidence) -> list[str]:
    divided = divide(PLAN, now, unplanned(PLAN, now), evidence)
    assert {*divided.damage, *divided.harmless} == {*unplanned(PLAN, now)}
    return [f"{d.label} {d.kind}" for d in divided.damage]


SUCCESSOR = replace(NGINX, id=ContainerId("next"), created_at=NGINX.created_at + 9)


@pytest.mark.parametrize("now", [node_with(ended()), node_with(ended(), SUCCESSOR), node_with(ended(0))])
def test_what_nobody_asked_the_runtime_to_stop_ended_by_itself(now: Inventory) -> None:
    assert damage(now, NOBODY_ASKED) == []


def test_the_very_first_instance_may_have_been_removed_when_its_last_one_shows_how_it_ended() -> None:
    second = ended(1, replace(SUCCESSOR, id=ContainerId("second")))
    now = Inventory(
        containers=(*(c for c in PLAN.baseline.containers if c.id != NGINX.id), second, SUCCESSOR),
        sandboxes=PLAN.baseline.sandboxes,
    )

    assert damage(now, NOBODY_ASKED) == []


@pytest.mark.parametrize(
    ("now", "evidence"),
    [
        (node_with(ended()), Evidence()),
        (node_with(ended()), Evidence(asked=frozenset({NGINX.id}))),
        (node_with(ended()), Evidence(asked=frozenset({NGINX.sandbox_id}))),
        (node_with(ended(137)), NOBODY_ASKED),
        (node_with(ended(255)), NOBODY_ASKED),
        (node_with(ended(None)), NOBODY_ASKED),
        (node_with(ended(137, SUCCESSOR), ended(1)), NOBODY_ASKED),
        (node_with(replace(NGINX, process=None)), NOBODY_ASKED),
        (node_with(ended()), Evidence(owners=owner_changes.Evidence(deleted=(PodUid("another"),)))),
    ],
    ids=[
        "the log does not tell", "it was stopped", "its sandbox was stopped", "a SIGKILL", "lost by the runtime",
        "nobody knows how", "its successor was killed", "no process, but not ended", "another pod was deleted",
    ],
)  # fmt: skip
def test_in_doubt_it_was_the_kubelet(now: Inventory, evidence: Evidence) -> None:
    assert damage(now, evidence)


def test_a_sandbox_that_ended_takes_the_excuse_with_it() -> None:
    assert damage(node_with(ended(), ready=False), NOBODY_ASKED) == [
        "default/web/nginx stopped",
        "default/web (sandbox) stopped",
    ]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_pod_that_was_over_before_the_new_kubelet_takes_its_sandbox_along(recorded: bool) -> None:
    """The runtime lost how it ended; the kubelet stops the sandbox before anybody has looked."""
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("job", "work", restart_policy="Never")])
    plan = plan_for(node, "v1.33.13")
    [work] = plan.baseline.containers
    over = replace(work, state=ContainerState.EXITED, process=None, exit_code=255)
    now = Inventory(containers=(over,), sandboxes=tuple(replace(each, ready=False) for each in plan.baseline.sandboxes))
    evidence = Evidence(asked=frozenset({work.sandbox_id}), with_runtime=frozenset({work.id} if recorded else ()))

    assert bool(divide(plan, now, unplanned(plan, now), evidence).damage) is not recorded


@pytest.mark.parametrize(
    ("exit_code", "policy", "harmless"),
    [(0, "Never", True), (0, "OnFailure", True), (1, "OnFailure", False), (0, "Always", False)],
)
@pytest.mark.parametrize("left", [True, False])
def test_a_pod_that_was_over_when_the_run_was_planned_takes_its_sandbox_along(
    exit_code: int, policy: str, harmless: bool, left: bool
) -> None:
    """A kubelet stops it a moment after the examination; once the pod is deleted, it removes all of it."""
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("job", "work", restart_policy=policy)])
    plan = plan_for(node, "v1.33.13")
    [work], [sandbox] = plan.baseline.containers, plan.baseline.sandboxes
    over = replace(work, state=ContainerState.EXITED, process=None, exit_code=exit_code)
    plan = replace(plan, baseline=Inventory(containers=(over,), sandboxes=(sandbox,)), containers=())
    now = Inventory(containers=(over,), sandboxes=(replace(sandbox, ready=False),)) if left else Inventory()

    divided = divide(plan, now, unplanned(plan, now), Evidence(asked=frozenset({sandbox.id})))

    assert (bool(divided.damage), bool(divided.ended)) == (not harmless, harmless)


def test_everything_of_a_deleted_pod_is_excused_and_nothing_of_another() -> None:
    now = node_with(ended(143), ready=False)
    owners = owner_changes.Evidence(deleted=(NGINX.pod.uid,))
    deleted = Evidence(asked=frozenset({NGINX.id, NGINX.sandbox_id}), owners=owners)

    assert damage(now, deleted) == []
    assert damage(Inventory(), deleted) == ["default/db/postgres gone", "default/db (sandbox) gone"]


def test_what_an_owner_changed_is_excused_and_nothing_else_of_the_pod() -> None:
    log = next(c for c in PLAN.baseline.containers if c.name == "log")
    now = node_with(ended(137), SUCCESSOR, ended(137, log), ready=False)
    [spec] = (spec for spec in PLAN.owned.containers if spec.name == "nginx")
    new_image = owner_changes.Evidence(specs=(replace(spec, image="new"),))

    assert damage(now, Evidence(asked=frozenset(), owners=new_image)) == [
        "default/web/log stopped",
        "default/web (sandbox) stopped",
    ]


def test_what_may_turn_out_to_be_harmless_is_waited_for() -> None:
    def waits(now: Inventory) -> bool:
        return may_be_harmless(PLAN, now, unplanned(PLAN, now))

    postgres = next(c for c in PLAN.baseline.containers if c.name == "postgres")
    assert waits(node_with(ended(143)))
    assert waits(node_with(ended(143), ready=False))
    assert not waits(node_with(ended(143), SUCCESSOR)), "it was replaced"
    assert not waits(node_with(ended(143), replace(SUCCESSOR, name="another"))), "the pod gets something new"
    assert not waits(node_with(ended(143), ended(143, postgres))), "two pods"
    going, other_going = replace(NGINX, process=None), replace(postgres, process=None)
    assert waits(node_with(going, other_going)), "the runtime has yet to say how they ended"
    assert waits(node_with(going, ended(143, postgres))), "one more was perhaps deleted"
    assert not waits(node_with(other_going, ended(143), SUCCESSOR)), "one more was replaced"
