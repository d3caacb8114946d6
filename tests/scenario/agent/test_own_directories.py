"""Nodes where not every directory may execute programs or survives a boot: where a run keeps what, or why none."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PreflightSettings
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.node.host.files.mounts import MOUNTS
from tests.scenario.agent.harness import World, untouched, upgraded

ROOT = "25 1 253:0 / / rw,relatime - ext4 /dev/vda1 rw"
FORBIDS = "30 25 253:5 /var /var rw,nosuid,nodev,noexec - ext4 /dev/vdb rw"
KUBELETS_OWN = "31 30 253:5 /kubelet /var/lib/kubelet rw,nosuid - ext4 /dev/vdb rw"
UNITS_IN_MEMORY = "32 25 0:40 / /etc rw - tmpfs tmpfs rw"
RECORDS_IN_MEMORY = "33 25 0:41 / /var rw - tmpfs tmpfs rw"
PROGRAM_IN_MEMORY = "34 25 0:42 / /usr rw - tmpfs tmpfs rw"
BUNDLES = ("var/lib/nodeupgrade/bundles", "var/lib/kubelet/nodeupgrade/bundles")


def mounted(world: World, *lines: str) -> None:
    world.node.disk[str(MOUNTS)] = world.disk[str(MOUNTS)] = "\n".join((ROOT, *lines, "")).encode()


def bundles(world: World) -> list[str]:
    """The directories of the node that have bundles in them."""
    return [place for place in BUNDLES if any((world.root / place).glob("*"))]


@pytest.mark.parametrize(
    ("lines", "place"),
    [((), BUNDLES[0]), ((FORBIDS, KUBELETS_OWN), BUNDLES[1]), ((RECORDS_IN_MEMORY, PROGRAM_IN_MEMORY), BUNDLES[0])],
    ids=["as usual", "only the kubelet's directory may execute", "a node without any disk"],
)
async def test_programs_are_kept_where_they_may_be_executed(world: World, lines: tuple[str, ...], place: str) -> None:
    mounted(world, *lines)
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert upgraded(world)
    assert bundles(world) == [place]
    assert (world.root / "var/lib/nodeupgrade/runs").is_dir(), "records are in one place, wherever programs are"


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
async def test_where_nothing_may_be_executed_nothing_is_touched(world: World, action: TaskAction) -> None:
    """A plan says so as well: both look at the same."""
    mounted(world, FORBIDS)
    world.kube.wish(action=action)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EXECUTOR_UNAVAILABLE)
    for place in ("/var/lib/nodeupgrade", "/var/lib/kubelet/nodeupgrade"):
        assert f"{place} is mounted noexec" in status.message
    assert bundles(world) == []
    assert untouched(world)


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
@pytest.mark.parametrize(
    ("line", "named"), [(UNITS_IN_MEMORY, "/etc/systemd/system"), (RECORDS_IN_MEMORY, "/var/lib/nodeupgrade")]
)
async def test_what_a_boot_would_forget_refuses_the_node(
    world: World, action: TaskAction, line: str, named: str
) -> None:
    mounted(world, line)
    world.kube.wish(action=action)

    status = await world.serve()

    assert status.phase is TaskPhase.REFUSED
    found = {(hazard.reason, hazard.check): hazard.detail for hazard in status.hazards}
    assert f"{named} is empty after a boot" in found[Reason.RUN_DIRECTORY_NOT_PERSISTENT, "run_outlives_a_boot"]
    assert untouched(world)


async def test_who_will_look_after_the_node_may_accept_that(world: World) -> None:
    mounted(world, UNITS_IN_MEMORY)
    world.kube.wish(preflight=PreflightSettings(accept=("run_outlives_a_boot",)))

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    (hazard,) = [hazard for hazard in status.hazards if hazard.reason == Reason.RUN_DIRECTORY_NOT_PERSISTENT]
    assert (hazard.warning, hazard.accepted) == (True, True)
