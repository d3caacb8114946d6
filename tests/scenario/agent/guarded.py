"""A node whose pod `web` has a probe, and a control plane that can guard it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import GuardGrant
from tests.doubles.node import pod_json
from tests.scenario.agent.harness import Killed, World, make_world

Make = Callable[[], World]

PROBE = {"httpGet": {"port": 80}, "periodSeconds": 5, "timeoutSeconds": 1, "successThreshold": 1}
EXPOSURE = 16
PAST = datetime.now(UTC) - timedelta(seconds=1)


def granted() -> GuardGrant:
    return GuardGrant(kubelet_runs_by=datetime.now(UTC) + timedelta(minutes=1))


def impossible() -> GuardGrant:
    return GuardGrant()


def make_guarded(root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Make such a node; the guard is wanted, and raised when it is asked for."""
    pods = (pod_json("web", "nginx"), pod_json("job", "work", restart_policy="Never"))
    pods[0]["spec"]["containers"][0]["readinessProbe"] = PROBE
    world = make_world(root, monkeypatch, pods=pods, arguments=("--kubeconfig=/etc/kubernetes/kubelet.conf",))
    world.node.disk["/etc/kubernetes/kubelet.conf"] = b"{}"
    world.disk = dict(world.node.disk)
    world.kube.wish(guard=GuardGrant(wanted=True))
    world.control_plane.answers = granted

    def ready(pod: dict[str, Any]) -> None:
        pod |= reported(world, pod)

    world.kube.changed = ready
    return world


def reported(world: World, pod: Json, ready: str = "True", *, replaced: bool = False) -> Json:
    """A pod as a kubelet reports it."""
    ids = {stored.instance.label: stored.instance.id for stored in world.node.runtime.containers.values()}
    running, pod_name = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, pod["metadata"]["name"]
    statuses = [
        {"name": name, "containerID": f"containerd://{'other' if replaced else identity}", "state": running}
        for name in (container["name"] for container in pod["spec"]["containers"])
        if (identity := ids.get(f"default/{pod_name}/{name}"))
    ]
    return {**pod, "status": {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": statuses}}


def pod(world: World, name: str) -> Json:
    return next(dict(pod.raw) for pod in world.node.kubelet.pods if pod.ref.name == name)


def at(moment: str, act: Callable[[], None]) -> Callable[[str], None]:
    """Do something at the first of such moments."""
    pending = [act]

    def hook(passing: str) -> None:
        if passing == moment and pending:
            pending.pop()()

    return hook


def kill() -> None:
    raise Killed
