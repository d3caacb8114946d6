"""A check that the NodeUpgrade accepts: the node is upgraded, and what was found is told from the plan to the end."""

from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PreflightSettings
from nodeupgrade.api.task.run_id import attempt_of
from nodeupgrade.api.task.status import TaskPhase
from tests.doubles.node import pod_json
from tests.scenario.agent.harness import RUN, World, make_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node with a pod that asks for a label which the node has lost."""
    pod = pod_json("web", "nginx")
    pod["spec"]["nodeSelector"] = {"disk": "spinning"}
    return make_world(tmp_path, monkeypatch, pods=(pod,), manifests={})


async def test_control_unless_it_is_accepted_the_node_is_refused(world: World) -> None:
    world.kube.wish(preflight=PreflightSettings(accept=("pods_fit",)))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.NODE_AFFINITY_NOT_MET)
    [hazard] = status.hazards
    assert (hazard.check, hazard.warning, hazard.accepted) == ("placements_are_met", False, False)


async def test_what_is_accepted_is_told_from_the_plan_to_the_end(world: World) -> None:
    world.kube.wish(preflight=PreflightSettings(accept=("placements_are_met",)))

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.restarted == []
    begun = [each.hazards for each in world.kube.statuses if each.steps]
    assert set(begun) == {status.hazards}
    [hazard] = status.hazards
    assert (hazard.reason, hazard.check) == (Reason.NODE_AFFINITY_NOT_MET, "placements_are_met")
    assert (hazard.warning, hazard.accepted, hazard.pod) == (True, True, "default/web")
    plan = world.runs.read_plan(attempt_of(RUN, 1))
    assert plan is not None
    assert [(each.check, each.accepted, each.subject) for each in plan.cautions] == [
        ("placements_are_met", True, "default/web")
    ]
