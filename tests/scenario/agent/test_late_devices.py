"""An agent's stories about devices that came after the examination, which a reload of systemd would take."""

from datetime import timedelta
from itertools import count
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.node.bundle.store import NodeBundles
from nodeupgrade.node.executor import units
from nodeupgrade.node.host.device_rules import UnitDevices
from tests.doubles.node import SimulatedNode
from tests.doubles.node.kubelet import PROGRAM, program
from tests.scenario.agent.harness import NEW, Killed, World, quiet

SCOPE = "cri-containerd-gpu.scope"
GROUP = f"/kubepods.slice/{SCOPE}"
GPU = b"500 499 0:5 /nvidia0 /dev/nvidia0 rw - devtmpfs devtmpfs rw\n"


def a_gpu_comes(node: SimulatedNode) -> None:
    node.services.scopes[SCOPE] = UnitDevices(policy="strict", group=GROUP)
    node.disk.update({f"/sys/fs/cgroup{GROUP}/cgroup.procs": b"77\n", "/proc/77/mountinfo": GPU})


@pytest.mark.parametrize("reloads", [0, 1])
async def test_a_device_that_comes_before_the_next_reload_refuses_the_node(world: World, reloads: int) -> None:
    """The first is that of the executor's trial, the second that of its units."""

    def arrive(_moment: str) -> None:
        done = world.node.calls.effects.count("services.reload")
        if done == reloads and world.node.calls.readings.count("services.devices") > reloads:
            a_gpu_comes(world.node)

    world.hook = arrive

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DEVICES_WOULD_BE_LOST)
    assert f"{SCOPE} may use c 195:0 rw" in status.message
    assert world.node.calls.effects.count("services.reload") == reloads
    world.node.services.scopes.clear()
    assert not units.remain(world.node.ports.files, world.node.services, "kubelet.service", ())


@pytest.mark.parametrize(("staged", "reloads"), [(0, 0), (1, 0), (2, 1)])
async def test_a_device_that_comes_while_the_executor_is_staged_is_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch, staged: int, reloads: int
) -> None:
    """That takes seconds on a slow disk: twice for the trial, and again for the run."""
    stage, begun = NodeBundles.stage, count()

    def slow(bundles: NodeBundles) -> PurePosixPath:
        if next(begun) == staged:
            a_gpu_comes(world.node)
        return stage(bundles)

    monkeypatch.setattr(NodeBundles, "stage", slow)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DEVICES_WOULD_BE_LOST)
    assert world.node.calls.effects.count("services.reload") == reloads


async def test_an_executor_that_is_handed_over_again_is_not_loaded_at_the_expense_of_a_device(world: World) -> None:
    """An agent that is killed once its units are loaded leaves the rest to the next one, a minute later."""

    def kill(_moment: str) -> None:
        if units.EXECUTOR in world.node.services.active:
            world.node.services.active.clear()
            raise Killed

    world.executor_works, world.hook = False, kill
    with pytest.raises(Killed):
        await world.serve()
    done = world.node.calls.effects.count("services.reload")
    world.hook = quiet
    a_gpu_comes(world.node)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DEVICES_WOULD_BE_LOST)
    assert world.node.calls.effects.count("services.reload") == done


async def test_what_an_earlier_run_left_is_not_removed_at_the_expense_of_a_device(world: World) -> None:
    world.node.disk[f"/etc/systemd/system/{units.EXECUTOR}"] = b"[Service]\n"
    a_gpu_comes(world.node)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DEVICES_WOULD_BE_LOST)
    assert "services.reload" not in world.node.calls.effects


async def test_what_cannot_be_unloaded_after_a_run_waits_for_the_next_one(world: World) -> None:
    def arrive(_moment: str) -> None:
        if "services.start kubelet.service" in world.node.calls.effects:
            a_gpu_comes(world.node)

    world.hook = arrive

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert world.node.disk[PROGRAM] == program(NEW)
    assert units.remain(world.node.ports.files, world.node.services, "kubelet.service", ())
    assert not any(unit in world.node.services.active for unit in units.UNITS)


@pytest.mark.parametrize("loaded", [True, False])
async def test_an_executor_that_is_gone_is_started_again_at_the_expense_of_a_device_only_if_its_unit_is_lost(
    world: World, *, loaded: bool
) -> None:
    """Its kubelet may be down, which does not wait."""
    world.kube.wish(verify=VerifySettings(settle=timedelta(seconds=2), kubelet_down_budget=timedelta(seconds=600)))
    services = world.node.services

    def gone_once(_moment: str) -> None:
        if world.stops == 1 and world.moments.count("hand_over") == 1:
            services.active.discard(units.EXECUTOR)
            if not loaded:
                services.lost.add(units.EXECUTOR)
            a_gpu_comes(world.node)

    world.hook = gone_once

    await world.serve()

    assert world.moments.count("hand_over") == 2
    assert world.node.disk[PROGRAM] == program(NEW)
    assert (SCOPE in services.loaded_beside) is not loaded
