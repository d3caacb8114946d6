"""A kubelet that would not start as it runs, and pods that it would not admit again: refused, and told of by a plan."""

from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy, KubeletSettings
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from tests.scenario.agent.harness import World, make_world, untouched, upgraded

CONFIG = "/var/lib/kubelet/config.yaml"
LATER = 4e9
ACCEPT = KubeletSettings(configuration_drift=DriftPolicy.ACCEPT)
CERTIFICATE = "/var/lib/kubelet/pki/kubelet.crt"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node whose kubelet has a configuration file."""
    world = make_world(tmp_path, monkeypatch, arguments=(f"--config={CONFIG}", "--kubeconfig=/etc/kubelet.conf"))
    world.node.disk[CONFIG] = b"maxPods: 50\n"
    world.node.disk[CERTIFICATE] = b"its own"
    world.node.disk["/etc/kubelet.conf"] = b"{}"
    world.disk = dict(world.node.disk)
    return world


def change(world: World, config: bytes, *, running: dict[str, Any] | None = None) -> None:
    """Write the configuration after the kubelet was started; ``running`` is what it says of itself, if it does."""
    world.node.disk[CONFIG] = config
    world.node.files.touched[CONFIG] = LATER
    world.node.kubelet.configuration = running
    world.disk = dict(world.node.disk)


async def test_pods_that_a_start_would_not_admit_are_refused(configured: World) -> None:
    """As on a real node: `maxPods` lowered, and every pod but two killed."""
    configured.node.disk[CONFIG] = b"maxPods: 1\n"
    configured.disk = dict(configured.node.disk)

    status = await configured.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.POD_WOULD_NOT_BE_ADMITTED)
    assert "3 pods are on the node and 1 would be admitted" in status.message
    assert untouched(configured)


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
async def test_a_changed_configuration_is_refused_by_run_and_plan(configured: World, action: TaskAction) -> None:
    configured.kube.wish(action=action)
    change(configured, b"maxPods: 40\n")

    status = await configured.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.CONFIGURATION_DRIFT)
    assert f"{CONFIG} was changed at" in status.message
    assert "HTTP 403" in status.message
    assert untouched(configured)


async def test_what_the_kubelet_says_names_key_and_values(configured: World) -> None:
    change(configured, b"maxPods: 40\n", running={"maxPods": 50})

    status = await configured.serve()

    assert status.reason is Reason.CONFIGURATION_DRIFT
    assert "maxPods is 40 on disk and 50 in the running kubelet" in status.message


async def test_a_file_that_was_written_anew_with_the_same_content_is_no_drift(configured: World) -> None:
    change(configured, b"maxPods: 50\nsyncFrequency: 0s\n", running={"maxPods": 50, "syncFrequency": "1m0s"})

    status = await configured.serve()

    assert (status.phase, status.hazards) == (TaskPhase.SUCCEEDED, ()), status.message
    assert upgraded(configured)


async def test_an_accepted_change_is_told_before_anything_is_touched(configured: World) -> None:
    configured.kube.wish(kubelet=ACCEPT)
    change(configured, b"maxPods: 40\n")

    status = await configured.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    told = [each.hazards for each in configured.kube.statuses if each.steps or each.phase is TaskPhase.RUNNING]
    assert all([hazard.reason for hazard in hazards] == [Reason.CONFIGURATION_DRIFT] for hazards in told)
    assert all(hazard.warning for hazards in told for hazard in hazards)
    first = next(each for each in configured.kube.statuses if each.hazards)
    assert not first.steps


async def test_an_accepted_change_must_still_admit_every_pod(configured: World) -> None:
    configured.kube.wish(kubelet=ACCEPT)
    change(configured, b"maxPods: 2\n")

    status = await configured.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.POD_WOULD_NOT_BE_ADMITTED)
    assert [hazard.reason for hazard in status.hazards if hazard.warning] == [Reason.CONFIGURATION_DRIFT]
    assert untouched(configured)


async def test_an_accepted_change_that_no_kubelet_starts_with_is_refused(configured: World) -> None:
    """Its state files were kept under another policy: neither the new kubelet nor the old one would come back."""
    configured.kube.wish(kubelet=ACCEPT)
    change(configured, b"cpuManagerPolicy: static\n")
    configured.node.disk["/var/lib/kubelet/cpu_manager_state"] = (
        b'{"writer":"v1.30.14","policyName":"none","checksum":1}'
    )
    configured.disk = dict(configured.node.disk)

    status = await configured.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.KUBELET_WOULD_NOT_START)
    assert untouched(configured)


async def test_accepted_flags_are_those_that_the_new_kubelet_is_asked_about(configured: World) -> None:
    """The unit's command line counts, not the one that runs."""
    configured.kube.wish(kubelet=ACCEPT)
    unit = configured.node.services.unit
    unit.arguments = (*unit.arguments, "--feature-gates=NoSuchGate=true")

    status = await configured.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.KUBELET_WOULD_NOT_START), status.message
    assert "NoSuchGate" in status.message
    assert untouched(configured)


@pytest.mark.parametrize(("usable", "phase"), [(True, TaskPhase.SUCCEEDED), (False, TaskPhase.REFUSED)])
async def test_a_new_kubeconfig_is_as_good_as_the_old_one_if_it_works(
    configured: World, usable: bool, phase: TaskPhase
) -> None:
    configured.node.files.touched["/etc/kubelet.conf"] = LATER
    configured.control_plane.usable = usable

    assert (await configured.serve()).phase is phase
