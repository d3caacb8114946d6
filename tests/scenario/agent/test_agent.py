"""An agent's stories, from the task it reads to the status it leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.errors import Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import WRONG_HASH
from tests.doubles.node import Behaviour
from tests.doubles.node.kubelet import PROGRAM, program
from tests.scenario.agent.harness import BACKUP, NEW, OLD, RUN, SOURCE, World, untouched, upgraded

PHASES = [TaskPhase.STAGING, TaskPhase.PRECHECKING, TaskPhase.RUNNING, TaskPhase.VERIFYING, TaskPhase.SUCCEEDED]


async def test_a_node_is_upgraded_and_the_task_told_all_along(world: World) -> None:
    status = await world.serve()

    assert (status.phase, status.reason, status.run_id) == (TaskPhase.SUCCEEDED, Reason.SUCCEEDED, RUN)
    assert (status.containers.baseline, status.containers.unchanged, status.containers.restarted) == (4, 4, 0)
    assert list(dict.fromkeys(told.phase for told in world.kube.statuses)) == PHASES
    assert all(told.finished_at is None for told in world.kube.statuses[:-1])
    assert status.finished_at is not None
    assert upgraded(world)
    assert world.node.disk[BACKUP] == program(OLD)


async def test_a_bad_kubelet_is_rolled_back_and_said_so(world: World) -> None:
    world.node.kubelet.behaviour[NEW] = Behaviour.EXITS

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START)
    assert TaskPhase.ROLLING_BACK in [told.phase for told in world.kube.statuses]
    assert sorted(world.left_behind()) == [BACKUP]
    assert world.restarted == []


def wrong_digest(world: World) -> None:
    world.node.disk[SOURCE] = b"kubelet v1.33.13 with a twist"


def wrong_version(world: World) -> None:
    world.kube.wish(to_version="v1.32.13")


def no_file(world: World) -> None:
    del world.node.disk[SOURCE]


def altered_hash(world: World) -> None:
    world.node.runtime.serve(next(iter(world.node.runtime.containers)), HashValue("bad"))


def unknown_version(world: World) -> None:
    world.kube.wish(to_version="v1.99.0")


def stopped_kubelet(world: World) -> None:
    world.node.kubelet.stop()


def replaced_program(world: World) -> None:
    world.node.disk[PROGRAM] = program("v1.30.13")


def broken_configuration(world: World) -> None:
    world.node.disk["/etc/kubelet.yaml"] = b"healthzPort: ["
    arguments = (*world.node.services.unit.arguments, "--config=/etc/kubelet.yaml")
    process = world.node.kubelet.process
    assert process is not None
    process.arguments = arguments


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
@pytest.mark.parametrize(
    ("defect", "reason"),
    [
        (wrong_digest, Reason.DIGEST_MISMATCH),
        (wrong_version, Reason.WRONG_VERSION_REPORTED),
        (no_file, Reason.ARTIFACT_UNAVAILABLE),
        (altered_hash, Reason.STORED_HASH_NOT_REPRODUCED),
        (unknown_version, Reason.UNSUPPORTED_VERSION),
        (stopped_kubelet, Reason.UNSUPPORTED_SERVICE_MANAGER),
        (replaced_program, Reason.UNSUPPORTED_SERVICE_MANAGER),
        (broken_configuration, Reason.UNSUPPORTED_SERVICE_MANAGER),
    ],
)
async def test_a_refusal_leaves_nothing_on_the_node(
    world: World, defect: Callable[[World], None], reason: Reason, action: TaskAction
) -> None:
    world.kube.wish(action=action)
    defect(world)
    world.disk = dict(world.node.disk)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, reason)
    assert status.message.startswith("node untouched: ")
    assert status.hazards[0].reason == reason
    assert "sleep" not in world.moments, "what does not pass by itself is not waited for"
    assert untouched(world)


async def test_what_passes_by_itself_is_looked_at_again(world: World) -> None:
    def deletion_ends_soon(pod: dict[str, Any]) -> None:
        if world.moments.count("sleep") < 3 and pod["metadata"]["name"] == "web":
            pod["metadata"] = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}

    world.kube.changed = deletion_ends_soon

    await world.serve()

    assert world.moments[: world.moments.index("write_plan")].count("list_pods_on_node") == 4
    assert upgraded(world)


async def test_a_runtime_too_busy_to_answer_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = world.node.runtime.inventory

    def busy(**wanted: Any) -> Any:
        if world.moments.count("sleep") < 2:
            raise Transient("the runtime is busy")
        return inventory(**wanted)

    monkeypatch.setattr(world.node.runtime, "inventory", busy)

    await world.serve()

    assert upgraded(world)


async def test_what_does_not_pass_is_refused_in_the_end(world: World) -> None:
    def goes_on_for_ever(pod: dict[str, Any]) -> None:
        pod["metadata"] = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}

    world.kube.changed = goes_on_for_ever

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.POD_IN_TRANSITION)
    assert untouched(world)


async def test_a_mistake_in_hashes_can_be_asked_for(world: World) -> None:
    """For tests on a real node, where something else has to keep the containers."""
    world.environment = {VARIABLE: "/failpoints"}
    (world.root / "failpoints").mkdir()
    (world.root / "failpoints" / WRONG_HASH).write_text("one")

    assert (await world.serve()).phase is TaskPhase.ROLLED_BACK

    assert (world.root / "failpoints" / f"{WRONG_HASH}.hit").exists()
