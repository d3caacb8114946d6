"""Runs a rollout against the simulated fleet and writes down, line by line, what was decided and why."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.api.values import Verdict
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import CONFIGMAPS, CRON_JOBS, EVENTS, NODES, TASKS, UPGRADES, NotFoundError
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.fleet.actions import Hold, NodeAction, Wait
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from nodeupgrade.fleet.health.checks import HealthObservation
from nodeupgrade.sources.allowlist import Allowed
from tests.doubles.kube import InMemoryKube, merged
from tests.doubles.kube_fleet import FleetSimulator, Part
from tests.doubles.passes import Passes
from tests.scenario.rollout.scripted_health import ScriptedHealth

CONDITIONS = {
    "Accepted", "Planned", "Reconciling", "Stalled", "Ready", "Succeeded", "Degraded", "ZeroRestart",
    "ReadinessGuarded",
}  # fmt: skip

NAMESPACE = "nodeupgrade-system"
GUARD = CONFIGMAPS.within(NAMESPACE)
ALLOWED = Allowed(images=("registry.example/kubelet",), hooks=("silence", "set-noout", "unset-noout"))
IDLE, IDLE_STEPS = timedelta(seconds=15), 20
"""How long one waits when nothing goes on, and how often before one stops expecting anything."""

START = datetime(2026, 1, 1, tzinfo=UTC)


class Crash(Exception):
    """The operator died."""


@dataclass
class Scene:
    """A cluster, its node sides, and an operator that can die."""

    parts: dict[str, Part] = field(default_factory=dict)
    pods_lost: dict[str, int] = field(default_factory=dict)
    health: dict[str, HealthObservation] = field(default_factory=dict)
    version: str = "v1.33.13"
    story: list[str] = field(default_factory=list)
    highest_in_flight: int = 0
    crash_at: int | None = None
    writes: int = 0
    idle: int = 0
    parsed: dict[str, Upgrade] = field(default_factory=dict)
    start: datetime = START
    operator_node: str | None = None
    kube_type: type[InMemoryKube] = InMemoryKube
    idle_time: timedelta = IDLE
    written: Callable[[], None] = lambda: None  # called after each write of the operator

    def __post_init__(self) -> None:
        self.now = self.start
        self.kube = self.kube_type(version=self.version, clock=lambda: self.now)
        self.fleet = FleetSimulator(self.kube, NAMESPACE, parts=self.parts, pods_lost=self.pods_lost)
        self.operator = self.new_operator()
        self._said: set[str] = set()
        self._lost: set[str] = set()  # nodes that still have the cordon of a run that could not be rolled back

    def copy(self) -> "Scene":
        """The same cluster as it is now, with an operator that knows nothing yet; neither sees what the other does."""
        other = replace(
            self, parts=dict(self.parts), pods_lost=dict(self.pods_lost), health=dict(self.health),
            story=list(self.story), parsed=dict(self.parsed), start=self.now, written=lambda: None,
        )  # fmt: skip
        other.kube._objects, other.kube._revision = dict(self.kube._objects), self.kube._revision
        other.fleet = replace(
            self.fleet, kube=other.kube, parts=other.parts, pods_lost=other.pods_lost,
            rejected=dict(self.fleet.rejected), hooks=dict(self.fleet.hooks),
        )  # fmt: skip
        other._said, other._lost = set(self._said), set(self._lost)
        return other

    async def install_guard(self) -> None:
        await self.kube.create(GUARD, {"metadata": {"name": GUARD_NAME}})

    def new_operator(self) -> Passes:
        agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=ALLOWED)
        health = ScriptedHealth(self.health, lambda: self.now)
        return Passes(self.kube, agents, operator_node=self.operator_node, health=health)

    async def add_hook_template(self, name: str, *, suspend: bool = True) -> None:
        """Create a CronJob that hooks can be made from."""
        await self.kube.create(CRON_JOBS.within(NAMESPACE), cron_job(name, suspend=suspend))

    async def apply(self, name: str = "to-1-33", **spec: Any) -> None:
        await self.kube.create(UPGRADES, upgrade_object(name, **spec))

    async def upgrade(self, name: str = "to-1-33") -> Upgrade:
        body = await self.kube.get(UPGRADES, name)
        known = self.parsed.get(name)
        if known is None or known.resource_version != body["metadata"]["resourceVersion"]:
            self.parsed[name] = known = read_upgrade(body)
        return known

    async def look(self, name: str) -> tuple[NodeAction, ...]:
        """One pass of the operator over one NodeUpgrade; what was decided."""
        return (await self.operator.reconcile(name)).actions

    async def in_flight(self, name: str = "to-1-33") -> tuple[str, ...]:
        try:
            return (await self.upgrade(name)).status.flying
        except NotFoundError:
            return ()

    async def step(self, name: str = "to-1-33") -> bool:
        """One pass of the operator, one second, one tick of the node sides; whether the rollout is over."""
        self.kube.after_write = self._count_write
        try:
            done = await self.operator.reconcile(name)
            self._tell(done.actions)
        except Crash:
            self.operator, done = self.new_operator(), None
        finally:
            self.kube.after_write = lambda _verb, _name: None
        return await self._pass_time(done)

    async def go_on(self) -> None:
        """End the step in which the operator has died."""
        await self._pass_time(None)

    async def _pass_time(self, done: Result | None) -> bool:
        """End a step; without a result, the operator has died in it."""
        if done is None:
            self.story.append("-- the operator dies and is started again")
        await self.observe()
        revision = self.kube._revision
        await self.fleet.tick()
        await self.kube.collect_garbage()
        idle = done is not None and not done.changed and self.kube._revision == revision
        self.idle = self.idle + 1 if idle else 0
        self.now += self.idle_time if idle else timedelta(seconds=1)
        return done is not None and done.over

    async def finish(self, name: str = "to-1-33", *, patience: int = IDLE_STEPS) -> None:
        """Step until the rollout is over or nothing more comes of it."""
        while not await self.step(name) and self.idle < patience:
            pass

    async def run(self, name: str = "to-1-33", *, passes: int = 120) -> list[str]:
        """Step until the rollout is over, or nothing but waiting was decided for a while."""
        for _ in range(passes):
            if await self.step(name):
                break
        return self.story

    async def node(self, name: str) -> Json:
        return await self.kube.get(NODES, name)

    async def end_state(self) -> Json:
        """Everything that matters in the end, without what depends on when it was written."""
        nodes = {
            node["metadata"]["name"]: {
                "version": node["status"]["nodeInfo"]["kubeletVersion"],
                "unschedulable": node["spec"].get("unschedulable", False),
                "ours": CORDON_ANNOTATION in node["metadata"].get("annotations", {}),
            }
            for node in await self.kube.list(NODES)
        }
        tasks = {
            task["metadata"]["name"]: (task["spec"]["action"], task["spec"].get("verdict", {}).get("outcome"))
            for task in await self.kube.list(TASKS)
        }
        try:
            status = (await self.upgrade()).status
        except NotFoundError:
            return {"nodes": nodes, "tasks": tasks}
        conditions = {c.type: (c.status, c.reason) for c in status.conditions}
        guarded = [body.get("data") for body in await self.kube.list(GUARD)]
        return {"nodes": nodes, "tasks": tasks, "counts": status.counts, "conditions": conditions, "guarded": guarded}

    async def events(self) -> list[tuple[str, str, int]]:
        found = await self.kube.list(EVENTS.within("default"))
        return sorted((e["involvedObject"]["kind"], e["reason"], e["count"]) for e in found)

    def _count_write(self, verb: str, name: str) -> None:
        if "." in name:
            return  # events are for people; nothing depends on them
        self.writes += 1
        self.written()
        if self.writes == self.crash_at:
            raise Crash

    async def observe(self, name: str = "to-1-33") -> None:
        """What is true at every moment of every rollout, whatever happens."""
        try:
            upgrade = await self.upgrade(name)
        except NotFoundError:
            return
        flying = set(upgrade.status.flying)
        tasks = await self.kube.list(TASKS)
        lost = {task["metadata"]["name"] for task in tasks if _is_lost(task)}
        lost |= {each.node for each in upgrade.status.failures if each.outcome is Verdict.ROLLBACK_FAILED}
        nodes = await self.kube.list(NODES)
        touched = {n["metadata"]["name"] for n in nodes if _cordoned_by(n) == upgrade.uid}
        # Whoever deletes such a task has repaired the node: a retry begins with its cordon as it is.
        self._lost = (self._lost | lost) & touched
        assert touched <= flying | self._lost, f"{touched - flying} cordoned without a slot"
        self.highest_in_flight = max(self.highest_in_flight, len(flying))
        check_status(upgrade)

    def _tell(self, actions: tuple[NodeAction, ...]) -> None:
        for action in actions:
            node = getattr(action, "node", "")
            words = f"{type(action).__name__} {node}".strip()
            line = f"{words}: {action.reason} – {action.message}"
            if not isinstance(action, Wait | Hold) or line not in self._said:
                self.story.append(line)
        self._said = {line for line in self.story if line.startswith(("Wait", "Hold"))}


def check_status(upgrade: Upgrade) -> None:
    """What tools rely on: the rules of kstatus, and numbers that add up."""
    status = upgrade.status
    if not status.conditions:
        return
    told = {condition.type: condition for condition in status.conditions}
    assert set(told) - {"Impeded", "Healthy"} == CONDITIONS
    assert status.observed_generation <= upgrade.generation
    generations = {kind: condition.observed_generation for kind, condition in told.items()}
    if told["Accepted"].status == "False" and upgrade.finished:  # of a change that the rollout has not carried out
        assert generations.pop("Accepted") >= status.observed_generation
    assert set(generations.values()) == {status.observed_generation}
    reconciling, stalled = told["Reconciling"].status == "True", told["Stalled"].status == "True"
    ready, succeeded = told["Ready"].status == "True", told["Succeeded"].status
    assert [reconciling, stalled, ready].count(True) == 1, "exactly one of working, stuck and done"
    assert (succeeded == "Unknown") == (status.completed_at is None)
    if succeeded != "Unknown":
        assert (succeeded == "True") == ready
        assert status.in_flight == ()
    counts = status.counts
    assert counts.total == sum(dataclasses.astuple(counts)[1:])
    assert counts.total == sum(wave.total for wave in status.waves)
    assert len(status.in_flight) <= SLOTS


def _cordoned_by(node: Json) -> str:
    view = view_node(node)
    return view.cordoned_by if view.unschedulable else ""


def _is_lost(task: Json) -> bool:
    return bool(task["spec"].get("verdict", {}).get("outcome") == "RollbackFailed")


def cron_job(name: str, *, suspend: bool = True) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "run", "image": "registry.example/hook"}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedule": "0 0 1 1 *",
            "suspend": suspend,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }


def upgrade_object(name: str = "to-1-33", **overrides: Any) -> Json:
    spec: Json = {
        "version": "v1.33.13",
        "artifact": {"preStaged": {"linux-amd64": {"path": "/opt/kubelet", "sha256": "a" * 64}}},
        "nodes": {"selector": {"matchLabels": {"pool": "web"}}},
        "verify": {"settle": "10s"},
    }
    artifact = overrides.pop("artifact", spec["artifact"])
    nodes = overrides.pop("nodes", spec["nodes"])
    return {
        "apiVersion": UPGRADES.api_version,
        "kind": UPGRADES.kind,
        "metadata": {"name": name},
        "spec": {**merged(spec, overrides), "artifact": artifact, "nodes": nodes},
    }
