"""An agent's world in memory: API server, node, and the executor that systemd would run. Only runs are on disk."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cluster.kube_api import (
    Event,
    Keep,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    WatchEvent,
    WatchEventType,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.kubelet.credential_program import ProgramCredentials
from nodeupgrade.node.agent.serve import Agent
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.executor import units
from nodeupgrade.node.failpoints.interruption import plan_failpoint
from nodeupgrade.node.host.systemd.drop_ins import OWN_CHANGE
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.node import DEAD_MAN_TIMER
from nodeupgrade.node.own_directories import RUNS, bundles_on
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.derived_uids import RECORD
from nodeupgrade.node.plan.plan import ShownKubelet
from nodeupgrade.node.run.container_watch import LOOK_SECONDS
from nodeupgrade.node.run.run import NodeRun
from nodeupgrade.node.running_kubelet.kubelet import Answer
from nodeupgrade.node.verification.verification import differences
from nodeupgrade.node.wiring import bundles_from_pod
from tests.doubles.node import SimulatedNode, manifest, pod_json
from tests.doubles.node.kubelet import PROGRAM, program
from tests.scenario.agent.artifacts import SimulatedArtifacts
from tests.scenario.agent.given import small_bundle, upgrade_task
from tests.scenario.agent.host import SimulatedHost
from tests.scenario.agent.shown import shown_node

NODE = NodeName("node-a")
OLD, NEW = "v1.30.14", "v1.33.13"
MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
BACKUP = "/usr/bin/.kubelet.nodeupgrade-previous"
SOURCE = "/opt/kubelet-new"
RUN = RunId("0123abcd-1")
PODS = (pod_json("web", "nginx", "log"), pod_json("job", "work", restart_policy="Never"))
MANIFESTS = {"etcd.yaml": manifest("etcd", "etcd")}

LISTENING_TURNS = 5
"""Turns of the event loop that whoever watches the pods gets while the agent sleeps."""

TURN = asyncio.sleep
"""The real one."""

Hook = Callable[[str], None]
"""Called at every moment at which the agent hands control away, before and after; may raise."""


class Killed(BaseException):
    """The agent's pod is gone. Not an Exception: nothing in the program may catch it."""


class _Enough(BaseException):
    """The executor has taken one decision."""


def quiet(_moment: str) -> None:
    """Let everything pass."""


class Kube:
    """Implements cluster.kube_api.NodeSideKube for one task and one node."""

    def __init__(self, task: Task, node: SimulatedNode, hook: Hook) -> None:
        self.task: Task | None = task
        self.statuses: list[TaskStatus] = []
        self.labels: dict[str, str] = {}
        self.node_status: dict[str, Any] = {}
        self.changed: Callable[[dict[str, Any]], None] = lambda _pod: None
        self.hidden: set[str] = set()
        self.crowded = False  # whether the pods are together more than an agent reads at once
        self.services, self.dependants, self.asked_about = list[Json](), list[Json](), list[str]()
        self._node = node
        self.hook = hook
        self.reports: asyncio.Queue[WatchEvent | NodeUpgradeError] = asyncio.Queue()
        self.ahead = timedelta()  # of the node's clock: that of the API server

    def server_time(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def get_task(self, name: str) -> Task:
        self.hook("get_task")
        if self.task is None:
            raise NotFoundError(f"cannot find {name}")
        return self.task

    async def patch_task_status(self, name: str, status: TaskStatus) -> Task:
        self.hook("patch_task_status")
        if self.task is None:
            raise NotFoundError(f"cannot find {name}")
        self.task = replace(self.task, status=status)
        self.statuses.append(status)
        self.hook("patch_task_status done")
        return self.task

    async def get_node(self, name: str) -> dict[str, Any]:
        self.hook("get_node")
        api = self._node.kubelet.api
        if not api.answers:
            raise UnavailableError("nobody answers")
        return shown_node(name, api.shows, self.labels, self.node_status)

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[dict[str, Any]]:
        self.hook("list_pods_on_node")
        if self.crowded and keep is None:
            raise TooLargeError("the answer has more than 16777216 bytes")
        pods = [dict(pod.raw) for pod in self._node.kubelet.pods if pod.ref.name not in self.hidden]
        for pod in pods:
            self.changed(pod)
        return pods if keep is None else [dict(keep(pod)) for pod in pods]

    async def list_services(self, namespaces: Iterable[str]) -> list[dict[str, Any]]:
        self.hook("list_services")
        self.asked_about += namespaces
        return self.services

    async def list_dependants(self, namespaces: Iterable[str]) -> list[dict[str, Any]]:
        self.hook("list_dependants")
        return self.dependants

    async def watch_pods_on_node(self, node: str, *, resource_version: str = "") -> AsyncGenerator[WatchEvent, None]:
        """What is reported while somebody watches; not one of the agent's moments, since the run goes on without."""
        while True:
            report = await self.reports.get()
            if isinstance(report, NodeUpgradeError):
                raise report
            yield report

    def report(self, pod: Json, *, change: WatchEventType = WatchEventType.MODIFIED) -> None:
        """Let the watch tell of a pod."""
        metadata = {**pod["metadata"], "resourceVersion": "1"}
        self.reports.put_nowait(WatchEvent(change, {**pod, "metadata": metadata}))

    async def emit_event(self, event: Event) -> bool:
        raise AssertionError("the agent tells the task, not the world")

    def wish(self, **changes: Any) -> None:
        """Change the task's spec, as the control plane does."""
        assert self.task is not None
        self.task = replace(self.task, spec=replace(self.task.spec, **changes))


@dataclass
class ControlPlane:
    """As much of a control plane and its API server as the readiness guard takes."""

    answers: Callable[[], GuardGrant] | None = None  # whether it answers, and with which moment; None: it does not
    in_force_after: int = 0  # how often the guard is tried before it is in force
    usable: bool = True  # whether the kubelet's credentials are
    known: bool = True  # whether the API server knows them
    output: bytes = b""  # what a program prints that a kubeconfig names
    printed: list[ProgramCredentials] = field(default_factory=list)  # all that was used of it
    asked: list[str] = field(default_factory=list)  # every request, once
    tried: list[str] = field(default_factory=list)  # every path whose patch was tried as the kubelet

    def see(self, kube: Kube) -> None:
        """Answer what is asked, if anything is."""
        assert kube.task is not None
        ask = kube.task.status.guard.ask
        if kube.task.status.phase is not TaskPhase.STAGED:
            return
        if ask not in self.asked:
            self.asked.append(ask)
        if self.answers is not None and kube.task.spec.guard.answers != ask:
            kube.wish(guard=replace(self.answers(), wanted=True, answers=ask))

    def read(self, path: str) -> Answer:
        self.tried.append(path)
        return Answer(200, json.dumps({"metadata": {"uid": "node-uid"}})) if self.known else Answer(401, "")

    def try_patch(self, path: str, patch: Json) -> Answer:
        assert patch["status"]["conditions"] == [{"type": "Ready", "status": "False"}]
        self.tried.append(path)
        if len(self.tried) <= self.in_force_after:
            return Answer(200, "{}")
        what, policy = ("nodes", "node-guard") if path.startswith("/api/v1/nodes/") else ("pods", "readiness-guard")
        by = f"ValidatingAdmissionPolicy '{policy}.nodeupgrade.dev' with binding '{policy}.nodeupgrade.dev'"
        return Answer(422, json.dumps({"message": f'{what} "it" is forbidden: {by} denied request: it is guarded'}))


@dataclass
class World:
    """One node about to be upgraded, and its agent."""

    root: Path
    node: SimulatedNode
    kube: Kube
    runs: RunStore
    settings: AgentSettings
    hook: Hook = quiet  # see Hook
    moments: list[str] = field(default_factory=list)  # every moment at which control was handed away
    environment: dict[str, str] = field(default_factory=dict)  # of the agent's process
    executor_works: bool = True  # otherwise systemd starts it and it is gone at once
    control_plane: ControlPlane = field(default_factory=ControlPlane)
    asked: list[Arrivals] = field(default_factory=list)  # what the executor has asked the agent to plan

    def __post_init__(self) -> None:
        self.before = self.node.inventory()
        self.disk = dict(self.node.disk)
        self.kube.hook = self.pass_by

    def pass_by(self, moment: str) -> None:
        self.moments.append(moment)
        self.hook(moment)
        if moment == "patch_task_status done":
            self.control_plane.see(self.kube)

    async def serve(self) -> TaskStatus:
        """Let one agent serve, and return what the task says in the end."""
        agent = Agent(
            self.settings,
            self.kube,
            SimulatedHost(self.node, self.control_plane),
            runs=self.runs,
            bundles=bundles_from_pod(self.settings.bundle, self.root, *bundles_on(self.node.files)),
            artifacts=SimulatedArtifacts(self.node, self.settings),
            failpoint=plan_failpoint(self.environment, self.root),
        )
        try:
            await agent.serve()
        finally:
            self.node.disk.pop(str(self.settings.in_pod(self.settings.copied)), None)  # it is gone with the pod
        return self.status

    @property
    def status(self) -> TaskStatus:
        assert self.kube.task is not None
        return self.kube.task.status

    @property
    def restarted(self) -> list[str]:
        return [str(found) for found in differences(self.before, self.node.inventory())]

    @property
    def stops(self) -> int:
        """How often a run stopped the kubelet, over all journals on the node."""
        runs = [RunId(path.parent.name) for path in sorted((self.root / "var/lib/nodeupgrade/runs").glob("*/journal"))]
        return sum(self.runs.read_journal(run).count(Step.STOP_KUBELET, Mark.DOING) for run in runs)

    def everything(self) -> dict[str, object]:
        """All there is to the node, and every effect that it ever felt."""
        node, runtime = self.node, self.node.runtime
        seen = {
            "disk": node.disk,
            "containers": runtime.containers,
            "sandboxes": runtime.sandboxes,
            "units": (node.services.active, node.services.unit, node.services.arguments),
            "kubelet": (node.kubelet.process, node.kubelet.replaced, node.kubelet.violations),
            "effects": node.calls.effects,
            "real files": {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()},
            "real directories": {path for path in self.root.rglob("*") if path.is_dir()},
        }
        return deepcopy(seen)

    def left_behind(self) -> dict[str, bytes]:
        """Files that were not on the node before, or not like this; the kubelet's state and our own records aside."""
        disk = {path: data for path, data in self.node.disk.items() if path != str(OWN_CHANGE)}
        changed = {path: data for path, data in disk.items() if self.disk.get(path) != data}
        return {path: data for path, data in changed.items() if not path.startswith("/var/lib/kubelet/")}

    def tick(self) -> None:
        """Let the executor take one decision, if systemd runs it."""
        if units.EXECUTOR not in self.node.services.active:
            return
        run = self.runs.unfinished()
        if run is None or not self.executor_works:
            self.node.services.active.discard(units.EXECUTOR)
            return
        decisions = iter((None,))

        def heartbeat() -> None:
            if next(decisions, self) is not None:
                raise _Enough

        plan = self.runs.require_plan(run)

        def shown_kubelet() -> ShownKubelet:
            """What the agent has reported; it is its turn as long as that is not the new kubelet."""
            if (shown := self.runs.shown_kubelet(run)) is None or shown.version != plan.to_version:
                self.node.timeline.advance(LOOK_SECONDS)
                raise _Enough
            return shown

        def planned_arrivals(asked: Arrivals) -> PlannedArrivals | None:
            """What the agent has answered; it is its turn once, and the executor waits by its own clock."""
            answer = self.runs.ask_for_plan(run, asked)
            answered = answer is not None and set(answer.asked) == {c.id for c in asked.inventory.containers}
            if not answered and asked not in self.asked:
                self.asked.append(asked)
                raise _Enough
            return answer

        ports = replace(
            self.node.ports,
            abort=lambda: self.runs.abort_requested(run),
            newcomers=lambda: self.runs.ask_for_newcomers(run),
            planned_arrivals=planned_arrivals,
            shown_kubelet=shown_kubelet,
        )
        with self.runs.open_journal(run) as store:
            try:
                self.node.shield.plan = plan
                self.node.shield.amended = lambda plan: plan_in_effect(plan, self.runs.read_journal(run))
                NodeRun(node=ports, plan=plan, store=store, heartbeat=heartbeat).carry_out()
            except _Enough:
                return
        self.node.services.active.discard(units.EXECUTOR)


def make_world(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    old: str = OLD,
    new: str = NEW,
    pods: tuple[dict[str, Any], ...] = PODS,
    manifests: Mapping[str, bytes] = MANIFESTS,
    arguments: tuple[str, ...] = (),
) -> World:
    """A node with a few pods and a static pod; time passes only when the agent sleeps."""
    node = SimulatedNode(
        version=old,
        pods=pods,
        manifests=manifests,
        arguments=("--pod-manifest-path=/etc/kubernetes/manifests", *arguments),
        name=NODE,
    )
    node.disk[SOURCE] = program(new)
    settings = AgentSettings(
        node=NODE,
        task=NODE,
        run_id=RUN,
        namespace="nodeupgrade-system",
        host=root,
        bundle=small_bundle(root),
        copied=root / "staging/kubelet",
    )
    settings.copied.parent.mkdir(exist_ok=True)
    runs = RunStore(settings.on_host(RUNS), mount=root)
    world = World(
        root=root,
        node=node,
        kube=Kube(upgrade_task(NODE, RUN, old, new, source=SOURCE), node, quiet),
        runs=runs,
        settings=settings,
    )

    async def to_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        world.pass_by(function.__name__)
        result = function(*arguments)
        world.pass_by(f"{function.__name__} done")
        return result

    async def sleep(seconds: float) -> None:
        world.pass_by("sleep")
        node.timeline.advance(seconds)
        world.tick()
        for _ in range(LISTENING_TURNS):
            await TURN(0)
        if len(world.moments) > 5000:
            raise AssertionError(f"the agent never ends; it waits in {world.moments[-12:]}")

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return world


def untouched(world: World) -> bool:
    """Whether nothing of ours is on the node and nothing ever happened to it."""
    return (
        world.left_behind() == {}
        and world.stops == 0
        and world.runs.unfinished() is None
        and not world.node.services.active & {units.EXECUTOR, DEAD_MAN_TIMER}
        and world.restarted == []
    )


def upgraded(world: World) -> bool:
    """Whether the node runs the new kubelet, with every instance what it was and nothing left but what stays."""
    return (
        sorted(world.left_behind()) == sorted([MANIFEST, BACKUP, PROGRAM, str(RECORD)])
        and world.node.disk[PROGRAM] == program(NEW)
        and world.restarted == []
        and world.node.kubelet.violations == []
        and not world.node.services.active & {units.EXECUTOR, DEAD_MAN_TIMER}
    )
