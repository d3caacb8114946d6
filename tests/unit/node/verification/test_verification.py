"""Tests that every difference between two instances is reported, and nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, SandboxInstance
from nodeupgrade.node.verification.verification import (
    Difference,
    DifferenceKind,
    affected,
    appeared,
    completed,
    consistent,
    differences,
    hash_differences,
    unplanned,
)
from tests.builders.planned_container import MAIN, NEW, PLANNED, POD, SANDBOX
from tests.builders.shielded import shielded_plan

BEFORE = Inventory(containers=(MAIN,), sandboxes=(SANDBOX,))
EXITED = replace(MAIN, state=ContainerState.EXITED, process=None, exit_code=0)


def told(after: Inventory, *, may_complete: tuple[ContainerId, ...] = ()) -> list[str]:
    return [str(difference) for difference in differences(BEFORE, after, may_complete=may_complete)]


@pytest.mark.parametrize("after", [Inventory(), Inventory(containers=(EXITED,))], ids=["gone", "ended"])
def test_what_becomes_of_the_agents_own_pod_does_not_count(after: Inventory) -> None:
    plan = replace(shielded_plan(), baseline=BEFORE, containers=(replace(PLANNED, expendable=True),))
    assert differences(BEFORE, after) != ()
    assert unplanned(plan, after) == ()


def test_the_same_instances_are_no_difference() -> None:
    successor_of_nobody = replace(MAIN, id=ContainerId("other"), name="other", created_at=9)
    cheap = Inventory(
        containers=(replace(MAIN, started_at=None, hashes=NEW), successor_of_nobody),
        sandboxes=(replace(SANDBOX, ip=None),),
    )

    assert told(BEFORE) == []
    assert told(cheap) == []


@pytest.mark.parametrize(
    ("after", "story"),
    [
        (None, "ns/web/main gone: main is gone"),
        (EXITED, "ns/web/main stopped: main is exited, exit code 0"),
        (replace(MAIN, state=ContainerState.UNKNOWN, process=None), "ns/web/main stopped: main is unknown"),
        (replace(MAIN, attempt=1), "ns/web/main changed: attempt was 0, is 1"),
        (replace(MAIN, created_at=7), "ns/web/main changed: created was 2, is 7"),
        (replace(MAIN, started_at=7), "ns/web/main changed: started was 3, is 7"),
        (
            replace(MAIN, process=Process(pid=11, started=500)),
            "ns/web/main changed: process was Process(pid=11, started=101), is Process(pid=11, started=500)",
        ),
        (replace(MAIN, process=None), "ns/web/main ending: process Process(pid=11, started=101) is gone"),
    ],
)
def test_a_container_that_is_not_the_same(after: ContainerInstance | None, story: str) -> None:
    containers = () if after is None else (after,)

    assert told(Inventory(containers=containers, sandboxes=(SANDBOX,))) == [story]


def test_a_monitor_of_its_own_is_one_that_a_container_can_lose() -> None:
    """Where a monitor looks after a whole pod, its loss is told once: of the sandbox."""
    own, shared = (replace(MAIN, monitor=monitor) for monitor in (Process(pid=12, started=102), SANDBOX.monitor))
    unmonitored = Inventory(containers=(MAIN,), sandboxes=(SANDBOX,))

    def lost(before: ContainerInstance) -> list[str]:
        return [str(d) for d in differences(replace(BEFORE, containers=(before,)), unmonitored)]

    assert lost(own) == ["ns/web/main monitor lost: Process(pid=12, started=102) became None"]
    assert lost(shared) == []


@pytest.mark.parametrize(
    ("after", "story"),
    [
        (None, "ns/web (sandbox) gone: sandbox is gone"),
        (replace(SANDBOX, ready=False), "ns/web (sandbox) stopped: sandbox is not ready"),
        (replace(SANDBOX, ip="10.0.0.2"), "ns/web (sandbox) changed: address was 10.0.0.1, is 10.0.0.2"),
        (replace(SANDBOX, process=None), "ns/web (sandbox) ending: process Process(pid=10, started=100) is gone"),
        (
            replace(SANDBOX, process=None, monitor=None),
            "ns/web (sandbox) ending: process Process(pid=10, started=100) is gone",
        ),
        (
            replace(SANDBOX, monitor=None),
            "ns/web (sandbox) monitor lost: Process(pid=9, started=99) became None",
        ),
    ],
)
def test_a_sandbox_that_is_not_the_same(after: SandboxInstance | None, story: str) -> None:
    sandboxes = () if after is None else (after,)

    assert told(Inventory(containers=(MAIN,), sandboxes=sandboxes)) == [story]


def test_a_replaced_static_pod_is_found_under_its_new_uid() -> None:
    elsewhere = replace(POD, uid=PodUid("uid-2"))
    successor = replace(MAIN, id=ContainerId("next"), pod=elsewhere, created_at=50)

    found = told(Inventory(containers=(EXITED, successor), sandboxes=(SANDBOX,)))

    assert found == ["ns/web/main restarted: main was replaced by next"]


def test_completing_is_free_for_those_who_may_and_takes_the_sandbox_along() -> None:
    after = Inventory(containers=(EXITED,), sandboxes=(replace(SANDBOX, ready=False),))

    assert told(after, may_complete=(MAIN.id,)) == []
    assert told(Inventory(containers=(replace(EXITED, exit_code=1),), sandboxes=(SANDBOX,)), may_complete=(MAIN.id,))


@pytest.mark.parametrize("compare", [differences, lambda before, now: completed(plan_of(before), now)])
def test_a_comparison_takes_time_in_proportion_to_the_containers(compare: Callable[..., object]) -> None:
    """It is made at least twice while no kubelet runs, and four times a second after that."""
    passes: list[int] = []
    for number in (10, 100):
        many = tuple(replace(MAIN, id=ContainerId(f"c{n}"), name=f"c{n}") for n in range(number))
        now = Counted(many)
        compare(Inventory(containers=many, sandboxes=(SANDBOX,)), Inventory(containers=now, sandboxes=(SANDBOX,)))
        passes.append(now.passes)

    assert passes[0] == passes[1] < 10


class Counted(tuple[ContainerInstance, ...]):
    """Counts how often it is gone through."""

    passes = 0

    def __iter__(self) -> Iterator[ContainerInstance]:
        self.passes += 1
        return super().__iter__()


def plan_of(before: Inventory) -> RunPlan:
    each = (replace(PLANNED, id=c.id, name=c.name, may_complete=True) for c in before.containers)
    return replace(shielded_plan(), baseline=before, containers=tuple(each))


def test_whoever_was_replaced_has_not_completed() -> None:
    """A container that handles SIGTERM exits with 0, whoever sent it."""
    successor = replace(MAIN, id=ContainerId("next"), created_at=50)
    after = Inventory(containers=(EXITED, successor), sandboxes=(SANDBOX,))

    assert told(after, may_complete=(MAIN.id,)) == ["ns/web/main restarted: main was replaced by next"]


def test_what_appears_is_told_unless_it_is_dead() -> None:
    guest = replace(MAIN, id=ContainerId("guest"), name="guest", state=ContainerState.CREATED)
    corpse = replace(guest, id=ContainerId("corpse"), state=ContainerState.EXITED)
    now = Inventory(containers=(MAIN, guest, corpse), sandboxes=(SANDBOX,))

    assert [str(d) for d in appeared(BEFORE, now, planned=(PLANNED,))] == [
        "ns/web/guest appeared: container guest is created"
    ]


def test_served_hashes_are_compared_where_something_runs() -> None:
    def served(container: ContainerInstance) -> list[str]:
        return [str(d) for d in hash_differences([PLANNED], Inventory(containers=(container,)))]

    assert served(replace(MAIN, hashes=NEW)) == []
    assert served(EXITED) == []
    assert served(MAIN) == ["ns/web/main changed: serves 01d, planned 2e2"]


def test_absence_counts_when_it_is_seen_twice_and_an_end_at_once() -> None:
    def found(kind: DifferenceKind, label: str) -> Difference:
        return Difference(kind=kind, label=label, detail="", pod=POD)

    gone, ended = found(DifferenceKind.GONE, "ns/web/main"), found(DifferenceKind.STOPPED, "ns/web/side")

    assert consistent([gone], [gone]) == (gone,)
    assert consistent([found(DifferenceKind.GONE, "ns/web/other")], [gone]) == ()
    assert consistent([found(DifferenceKind.CHANGED, gone.label)], [gone]) == ()
    assert consistent([gone], []) == ()
    assert consistent([], [ended, found(DifferenceKind.RESTARTED, "ns/web/third")]) == (
        ended,
        found(DifferenceKind.RESTARTED, "ns/web/third"),
    )


def test_a_pod_is_told_of_once() -> None:
    found = [
        Difference(kind=DifferenceKind.RESTARTED, label="a/web/app", detail="", pod=POD),
        Difference(kind=DifferenceKind.GONE, label="a/web (sandbox)", detail="", pod=POD),
        Difference(kind=DifferenceKind.MONITOR_LOST, label="a/lonely (sandbox)", detail="", pod=POD),
    ]

    assert affected(each.label for each in found) == ("a/web/app", "a/lonely (sandbox)")
