"""A kubelet from a package of dpkg: held with the upgrade, as before after a rollback, and never touched unasked."""

from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import KubeletSettings, PackagePolicy
from nodeupgrade.api.task.status import StepResult, TaskPhase
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.host.packages.dpkg_database import INFO, PROGRAM, STATUS
from tests.doubles.node import Behaviour
from tests.scenario.agent.harness import NEW, World, make_world, untouched

INSTALLED = b"Package: kubelet\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.30.14-1.1\n"
HELD = INSTALLED.replace(b"install ok", b"hold ok")
HOLD = "packages.select kubelet hold"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node whose kubelet was installed by dpkg, and an upgrade that is to hold it."""
    world = make_world(tmp_path, monkeypatch)
    world.node.disk[str(INFO / "kubelet.list")] = b"/.\n/usr/bin/kubelet\n"
    world.node.disk.update({str(STATUS): INSTALLED, str(PROGRAM): b"dpkg"})
    world.disk = dict(world.node.disk)
    world.kube.wish(kubelet=KubeletSettings(package=PackagePolicy.HOLD))
    return world


def calls(world: World) -> list[str]:
    """What was asked of dpkg, and what it was told."""
    every = (*world.node.calls.readings, *world.node.calls.effects)
    return [name for name in every if name.startswith("packages.")]


def held_when_stopped(world: World) -> bool:
    effects = world.node.calls.effects
    return effects.index(HOLD) < effects.index("services.stop kubelet.service")


async def test_the_package_is_held_before_the_kubelet_stops_and_stays_held(world: World) -> None:
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.node.disk[str(STATUS)] == HELD
    assert world.restarted == []
    assert held_when_stopped(world)
    package = status.kubelet.package
    assert package is not None
    assert (package.name, package.version, package.manager) == ("kubelet", "1.30.14-1.1", "dpkg")
    assert (package.held, package.held_by_us) == (True, True)
    (warning,) = (hazard for hazard in status.hazards if hazard.reason == Reason.KUBELET_FROM_PACKAGE)
    assert "apt-mark unhold kubelet" in warning.detail
    assert warning.warning


async def test_a_rollback_takes_the_hold_back(world: World) -> None:
    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK, status.message
    assert held_when_stopped(world)
    assert world.node.disk[str(STATUS)] == INSTALLED
    assert status.kubelet.package is None
    assert world.restarted == []


async def test_a_hold_that_cannot_be_taken_back_is_said_and_keeps_no_node_out_of_service(world: World) -> None:
    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS
    world.node.calls.before(
        "services.stop kubelet.service", lambda: setattr(world.node.packages, "user", "apt-get (process 7)")
    )

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK, status.message
    assert world.node.disk[str(STATUS)] == HELD
    assert "package kubelet:amd64 is still held (run apt-mark unhold kubelet:amd64)" in status.message
    assert "apt-get (process 7)" in status.message
    step = next(step for step in status.steps if step.name == Step.HOLD_PACKAGE)
    assert step.result is StepResult.FAILED
    assert world.node.services.unit.fenced is False


async def test_somebody_at_work_with_dpkg_refuses_the_node(world: World) -> None:
    world.node.packages.user = "apt-get (process 7)"
    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.CONFLICTING_NODE_OPERATION), status.message
    assert "apt-get (process 7) is using the database of dpkg" in status.message
    assert untouched(world)


async def test_somebody_at_work_with_dpkg_when_it_is_to_be_held_turns_the_run_back(world: World) -> None:
    """With the kubelet running."""
    world.node.calls.before(HOLD, lambda: setattr(world.node.packages, "user", "unattended-upgr (process 7)"))
    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.ROLLED_BACK, Reason.CONFLICTING_NODE_OPERATION), status.message
    assert "unattended-upgr (process 7) is using the database of dpkg" in status.message
    assert world.node.disk[str(STATUS)] == INSTALLED
    assert world.stops == 0
    assert world.restarted == []


async def test_dpkg_that_was_interrupted_after_planning_turns_the_run_back(world: World) -> None:
    world.node.calls.before(
        "files.copy /usr/bin/.kubelet.nodeupgrade-previous",
        lambda: setattr(world.node.packages, "interrupted", True),
    )
    status = await world.serve()

    assert (status.phase, world.stops) == (TaskPhase.ROLLED_BACK, 0), status.message
    assert "dpkg was interrupted after planning" in status.message
    assert HOLD not in calls(world)


@pytest.mark.parametrize("policy", [PackagePolicy.REFUSE, PackagePolicy.IGNORE])
async def test_unless_it_is_to_be_held_dpkg_is_neither_asked_nor_told_anything(
    world: World, policy: PackagePolicy
) -> None:
    world.kube.wish(kubelet=KubeletSettings(package=policy))
    status = await world.serve()

    ignored = policy is PackagePolicy.IGNORE
    assert status.phase is (TaskPhase.SUCCEEDED if ignored else TaskPhase.REFUSED)
    assert calls(world) == []
    assert world.node.disk[str(STATUS)] == INSTALLED
    package = status.kubelet.package
    assert (package is not None and not package.held) is ignored


async def test_a_kubelet_of_no_package_has_nothing_to_hold(world: World) -> None:
    del world.node.disk[str(INFO / "kubelet.list")]
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert calls(world) == []
    assert status.kubelet.package is None


async def test_a_package_that_is_held_already_is_left_as_it_is(world: World) -> None:
    world.node.disk[str(STATUS)] = HELD
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert HOLD not in calls(world)
    assert status.kubelet.package is not None
    assert (status.kubelet.package.held, status.kubelet.package.held_by_us) == (True, False)
