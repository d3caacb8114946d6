"""A runtime that would not come back as it runs, and units that do more than start a program: refused, untouched."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.agent_pods import RUN_LABEL
from nodeupgrade.node.verification.verification import differences
from tests.doubles.node import SimulatedNode, pod_json
from tests.doubles.node.containers.runtime_restart import RUNTIME_CONFIG, RUNTIME_PROGRAM, RUNTIME_UNIT, TUNED_CONFIG
from tests.doubles.node.services import KUBELET_UNIT
from tests.scenario.agent.harness import OLD, PODS, RUN, World, make_world, untouched, upgraded

Change = Callable[[SimulatedNode], None]
NOW = 10**10
"""Seconds since the epoch, after everything."""
KUBELET_DROP_IN = f"/etc/systemd/system/{KUBELET_UNIT}.d/10-site.conf"
RUNTIME_DROP_IN = f"/etc/systemd/system/{RUNTIME_UNIT}.d/10-site.conf"
THIEF = "ExecStartPre=/bin/cp /opt/old/kubelet /usr/bin/kubelet"


def written(path: str, text: bytes) -> Change:
    def change(node: SimulatedNode) -> None:
        node.disk[path] = text
        node.services.read_unit_files()

    return change


def changed(path: str) -> Change:
    def change(node: SimulatedNode) -> None:
        node.disk.setdefault(path, b"version = 2\n")
        node.files.touched[path] = NOW

    return change


def split(node: SimulatedNode) -> None:
    node.runtime.split_monitors(next(c.id for c in node.inventory().containers if c.name == "log"))


def another_process(node: SimulatedNode) -> None:
    node.runtime.troubles.peer = 4711
    node.disk["/proc/4711/cgroup"] = b"0::/system.slice/another.service\n"


FOUND: dict[str, tuple[Change, Reason, tuple[str, ...]]] = {
    "a configuration that cannot be read": (
        written(RUNTIME_CONFIG, b"version = = 2\n"),
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        (RUNTIME_CONFIG, "failed to load TOML"),
    ),
    "another root": (
        written(RUNTIME_CONFIG, b'version = 2\nroot = "/data/containerd"\n'),
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        ("root", "/var/lib/containerd", "/data/containerd"),
    ),
    "a configuration changed after the start": (
        changed(RUNTIME_CONFIG),
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        (RUNTIME_CONFIG, "restart containerd.service at a time of your choice"),
    ),
    "a drop-in of its unit changed after the start": (
        lambda node: (written(RUNTIME_DROP_IN, b"[Service]\nLimitNOFILE=1\n")(node), changed(RUNTIME_DROP_IN)(node))[0],
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        (RUNTIME_DROP_IN,),
    ),
    "another command line": (
        written(RUNTIME_DROP_IN, f"[Service]\nExecStart=\nExecStart={RUNTIME_PROGRAM} --log-level debug\n".encode()),
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        ("--log-level debug",),
    ),
    "another program of the same version": (
        lambda node: node.disk.update({RUNTIME_PROGRAM: b"containerd 2.1.9, built again"}),
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        (RUNTIME_PROGRAM,),
    ),
    "a socket that another process answers": (
        another_process,
        Reason.UNSUPPORTED_RUNTIME,
        ("4711", "another.service", "containerd.service"),
    ),
    "a container with a shim of its own": (
        split,
        Reason.RUNTIME_RESTART_WOULD_KILL_POD,
        ("default/web", "delete the pod"),
    ),
    "a command before the kubelet": (
        written(KUBELET_DROP_IN, f"[Service]\n{THIEF}\n".encode()),
        Reason.UNSUPPORTED_UNIT_COMMAND,
        (THIEF, KUBELET_UNIT),
    ),
    "a command before the runtime": (
        written(RUNTIME_DROP_IN, b"[Service]\nExecStartPre=/opt/prepare\n"),
        Reason.UNSUPPORTED_UNIT_COMMAND,
        ("ExecStartPre=/opt/prepare", RUNTIME_UNIT),
    ),
}


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
@pytest.mark.parametrize(("change", "reason", "told"), FOUND.values(), ids=FOUND.keys())
async def test_what_would_not_come_back_as_it_is_is_refused(
    world: World, change: Change, reason: Reason, told: tuple[str, ...], action: TaskAction
) -> None:
    change(world.node)
    world.disk = dict(world.node.disk)
    world.kube.wish(action=action)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, reason), status.message
    assert [part for part in told if part not in status.message] == []
    assert untouched(world)


HARMLESS: dict[str, Change] = {
    "nothing": lambda _node: None,
    "commands that change nothing": written(
        KUBELET_DROP_IN, b"[Service]\nExecStartPre=/bin/mkdir -p /var/lib/kubelet\nExecStartPre=-/sbin/swapoff -a\n"
    ),
    "an old configuration": lambda node: node.disk.update({RUNTIME_CONFIG: b"version = 2\n"}),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS.keys())
async def test_control_what_does_no_harm_is_let_pass(world: World, change: Change) -> None:
    change(world.node)
    world.disk = dict(world.node.disk)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert upgraded(world)


async def test_a_runtime_that_an_earlier_run_has_restarted_is_no_drift(world: World) -> None:
    """It runs with our configuration for that run, which is gone: the next start is as before all runs."""
    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert TUNED_CONFIG in world.node.runtime.words
    assert TUNED_CONFIG not in world.node.disk
    world.settings = replace(world.settings, run_id=RunId("0123abcd-2"))
    world.kube.wish(action=TaskAction.PRECHECK, run_id=world.settings.run_id, to_version=OLD, allow_downgrade=True)

    status = await world.serve()

    assert not {hazard.reason for hazard in status.hazards} & {Reason.RUNTIME_CONFIGURATION_DRIFT}, status.message


async def test_the_agents_own_pod_may_be_lost_and_is_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exists for this run only, which goes on without it: a busy node may give it a shim of its own, too."""
    agent = pod_json("nodeupgrade-agent", "agent", restart_policy="Never")
    agent["metadata"] |= {"labels": {RUN_LABEL: RUN}, "namespace": "nodeupgrade-system"}
    world = make_world(tmp_path, monkeypatch, pods=(*PODS, agent))
    [own] = [c.id for c in world.node.inventory().containers if c.name == "agent"]
    world.node.runtime.split_monitors(own)
    world.before = world.node.inventory()

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.restarted != [], "it was lost"
    others = world.before.without(frozenset(c.pod.uid for c in world.before.containers if c.id == own))
    assert differences(others, world.node.inventory()) == (), "and nothing else"


@pytest.mark.parametrize("name", ["another root", "a container with a shim of its own"])
def test_control_a_plain_restart_of_the_runtime_loses_pods(world: World, name: str) -> None:
    """What is refused is no fancy: it takes no more than a restart by anybody."""
    FOUND[name][0](world.node)

    world.node.services.restart(RUNTIME_UNIT, seconds=60)
    world.node.timeline.advance(5.0)

    assert world.restarted != []


def test_control_the_thief_does_what_it_is_refused_for(world: World) -> None:
    world.node.disk["/opt/old/kubelet"] = b"kubelet v1.20.15"
    FOUND["a command before the kubelet"][0](world.node)

    world.node.services.stop(KUBELET_UNIT)
    world.node.services.start(KUBELET_UNIT)

    process = world.node.kubelet.process
    assert process is not None
    assert str(process.version) == "v1.20.15"
