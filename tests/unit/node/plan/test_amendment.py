"""What an amendment takes out of a plan and puts into it, and which answers of an agent are not believed."""

from dataclasses import replace

import pytest

from nodeupgrade.api.values import ContainerId, PodUid, RunId, SandboxId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.plan.amendment import (
    AMENDMENT_SCHEMA,
    LARGEST_HOOKS,
    Amendment,
    Arrivals,
    PlannedArrivals,
    amended,
    amendment_of,
    changes_since,
    restarted,
    unfit,
)
from nodeupgrade.node.plan.plan import AwaitedContainer, CompletingPod, RunPlan, StopHook
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from tests.doubles.node import SimulatedNode, plan_for, pod_json


def planned() -> RunPlan:
    pods = [pod_json("web", "nginx"), pod_json("job", "work", restart_policy="Never")]
    return plan_for(SimulatedNode(version="v1.30.14", pods=pods), "v1.33.13")


def with_state(inventory: Inventory, name: str, state: ContainerState) -> Inventory:
    return replace(
        inventory,
        containers=tuple(replace(c, state=state, process=None) if c.name == name else c for c in inventory.containers),
    )


@pytest.mark.parametrize(("name", "watched"), [("work", ["web"]), ("nginx", ["job", "web"])])
def test_a_sandbox_is_watched_while_its_kubelet_keeps_it(name: str, watched: list[str]) -> None:
    """A pod that is over loses it; one whose container starts again does not."""
    plan = planned()
    now = with_state(plan.baseline, name, ContainerState.EXITED)

    after = amended(plan, amendment_of(plan, now, ()))

    assert sorted(s.pod.name for s in after.baseline.sandboxes) == watched
    assert name not in {c.name for c in after.containers}
    [gone] = [c for c in plan.containers if c.name == name]
    assert [(a.name, a.before, a.after) for a in after.awaited] == [
        (name, gone.before.container, gone.after.container)
    ], "a rollback must know both hashes of what a kubelet may start again"


def test_a_sandbox_in_which_nothing_ran_may_go() -> None:
    """That of a pod which was over already when the run was planned."""
    plan = planned()
    over = with_state(plan.baseline, "work", ContainerState.EXITED)
    plan = replace(plan, baseline=over, containers=tuple(c for c in plan.containers if c.name != "work"))
    now = replace(over, sandboxes=tuple(replace(s, ready=s.pod.name != "job") for s in over.sandboxes))

    change = amendment_of(plan, now, ())

    assert [s.pod.name for s in amended(plan, change).baseline.sandboxes] == ["web"]


def test_what_never_began_is_known_and_not_planned() -> None:
    plan = planned()
    waiting = replace(
        plan.baseline.containers[0], id=ContainerId("new"), name="new", state=ContainerState.CREATED, process=None
    )
    now = replace(plan.baseline, containers=(*plan.baseline.containers, waiting))

    assert changes_since(plan, now).created == (waiting,)
    after = amended(plan, amendment_of(plan, now, ()))
    assert after.containers == plan.containers
    assert waiting in after.baseline.containers


def test_what_was_restarted_is_guarded_against_its_hook_as_before() -> None:
    """A kubelet that ends it executes the hook first, and the agent is not asked about it."""
    plan = planned()
    shield = plan.shield
    assert shield is not None
    before = next(c for c in plan.baseline.containers if c.name == "nginx")
    hook = StopHook(container=before.id, command=("nginx", "-s", "quit"))
    plan = replace(plan, shield=replace(shield, hooks=(hook,)))
    again = replace(before, id=ContainerId("again"))
    others = tuple(c for c in plan.baseline.containers if c != before)
    now = replace(plan.baseline, containers=(*others, replace(before, state=ContainerState.EXITED), again))
    came = restarted(plan, again)
    assert came is not None

    after = amended(plan, amendment_of(plan, now, (came,)))

    assert after.shield == replace(shield, hooks=(replace(hook, container=again.id),))
    gone = amended(plan, amendment_of(plan, replace(now, containers=others), ()))
    assert gone.shield == replace(shield, hooks=())


def awaited(pod: str, name: str, before: str = "1") -> AwaitedContainer:
    return AwaitedContainer(pod=PodUid(pod), name=name, before=HashValue(before), after=HashValue("2"))


def test_what_has_yet_to_come_of_a_pod_is_awaited_by_its_newest_hash() -> None:
    plan = planned()
    runs = plan.containers[0]
    old, new = awaited("web", "app"), awaited("web", "app", "3")
    change = Amendment(awaited=(new, awaited(runs.pod.uid, runs.name)))

    assert amended(replace(plan, awaited=(old,)), change).awaited == (new,)


def answered(plan: RunPlan) -> tuple[Arrivals, PlannedArrivals]:
    """A question about everything that runs, with the right answer."""
    asked = Arrivals(schema=AMENDMENT_SCHEMA, run_id=plan.run_id, inventory=plan.baseline)
    ids = tuple(c.id for c in plan.baseline.containers)
    return asked, PlannedArrivals(schema=AMENDMENT_SCHEMA, run_id=plan.run_id, asked=ids, containers=plan.containers)


def test_an_answer_is_believed_only_about_what_is_seen() -> None:
    plan = planned()
    asked, right = answered(plan)
    first, *others = right.containers
    seen = first.pod
    wrong = [
        replace(right, schema=AMENDMENT_SCHEMA + 1),
        replace(right, run_id=RunId("another")),
        replace(right, obstacle="no"),
        replace(right, containers=tuple(others)),
        replace(right, containers=(first, *right.containers)),
        *(
            replace(right, containers=(replace(first, **change), *others))
            for change in (
                {"id": ContainerId("unseen")},
                {"name": "other"},
                {"pod": replace(seen, uid=PodUid("other"))},
                {"before": replace(first.before, container=HashValue("1"))},
                {"after": replace(first.after, container=None)},
            )
        ),
        replace(right, hooks=(StopHook(container=ContainerId("unseen"), command=("kill", "1")),)),
        replace(right, completing=(CompletingPod(pod=PodUid("unseen"), regular=()),)),
        replace(right, awaited=(awaited("unseen", "app"),)),
    ]

    hook = StopHook(container=asked.inventory.containers[0].id, command=("",) * LARGEST_HOOKS)
    assert unfit(replace(right, hooks=(hook,)), asked) is None
    long = replace(hook, command=(*hook.command, ""))
    assert unfit(replace(right, hooks=(long,)), asked) == "the commands of its preStop hooks are longer than 64 KiB"
    assert unfit(right, asked) is None
    assert [each for each in wrong if unfit(each, asked) is None] == []


def test_a_sandbox_that_came_is_watched_only_with_what_runs_in_it() -> None:
    plan = planned()
    empty = replace(plan.baseline.sandboxes[0], id=SandboxId("empty"))
    now = replace(plan.baseline, sandboxes=(*plan.baseline.sandboxes, empty))

    assert empty not in amended(plan, amendment_of(plan, now, ())).baseline.sandboxes
