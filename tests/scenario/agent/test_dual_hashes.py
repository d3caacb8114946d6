"""Agents on nodes whose kubelet accepts the hashes of an older one too: what they report, and what they refuse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.approved_settings import approval
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.kubelethash import hash_container
from tests.doubles.node import Behaviour, pod_json
from tests.doubles.node.dual_hash import FIRST, LISTED, LONG, PATCHED
from tests.doubles.node.kubelet import PROGRAM, program
from tests.scenario.agent.harness import NEW, World, make_world, untouched

CARRIED = {"1.12": 2, "1.19": 1}
Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(*, ran: float = LONG, listed: tuple[str, ...] = LISTED) -> World:
        pods = (pod_json("web", "nginx", "log"), pod_json("late", "queue"))
        world = make_world(tmp_path, monkeypatch, old=PATCHED, new=NEW, pods=pods, manifests={})
        node = world.node
        node.kubelet.also_accepts[PATCHED] = (FIRST,)
        specs = {c.name: c.spec for pod in node.kubelet.pods for c in pod.containers}
        process = node.kubelet.process
        assert process is not None
        node.services.stop("kubelet.service")
        for container in node.inventory().running():
            if container.name in {"nginx", "log"}:
                node.runtime.serve(container.id, hash_container(specs[container.name], FIRST))
        node.services.start("kubelet.service")
        node.timeline.advance(ran)
        world.kube.wish(hash_also_accepted=listed)
        return world

    return make


async def test_a_plan_says_how_many_containers_carry_which_hash(make: Make) -> None:
    world = make()
    world.kube.wish(action=TaskAction.PRECHECK)

    status = await world.serve()

    assert status.phase is TaskPhase.PRECHECKED
    assert status.hashes is not None
    assert (status.hashes.kubelets, status.hashes.as_of is None) == (CARRIED, False)


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
async def test_a_refused_node_says_so_too(make: Make, action: TaskAction) -> None:
    world = make(listed=())
    world.kube.wish(action=action)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.STORED_HASH_NOT_REPRODUCED)
    assert status.hashes is not None
    assert status.hashes.kubelets == {"1.15": 2, "1.19": 1}, "of those that compute it, the nearest"
    assert untouched(world)


async def test_after_an_upgrade_all_carry_the_new_one(make: Make) -> None:
    world = make()

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert status.hashes is not None
    assert status.hashes.kubelets == {"1.33": 3}
    assert world.node.disk[PROGRAM] == program(NEW)
    assert (world.restarted, world.node.kubelet.violations) == ([], [])


async def test_after_a_rollback_all_carry_what_they_carried(make: Make) -> None:
    world = make()
    world.node.kubelet.behaviour[NEW] = Behaviour.NEVER_HEALTHY

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK
    assert status.hashes is not None
    assert status.hashes.kubelets == CARRIED
    assert (world.restarted, world.node.kubelet.violations) == ([], [])


async def test_a_kubelet_that_was_just_started_is_waited_for(make: Make) -> None:
    world = make(ran=LONG - 30)

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED


async def test_a_kubelet_that_was_just_started_is_not_waited_for_for_long(make: Make) -> None:
    world = make(ran=60)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.HASHES_NOT_YET_COMPARED)
    assert untouched(world)


async def test_nobody_adds_a_kubelet_to_a_task_that_was_approved_without(make: Make) -> None:
    world = make(listed=())
    assert world.kube.task is not None
    world.settings = replace(world.settings, approved=approval(world.kube.task.spec))
    world.kube.wish(hash_also_accepted=LISTED)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.NOT_ALLOWED)
    assert untouched(world)
