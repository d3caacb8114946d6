"""Nodes, tasks and machines are deleted at random: no failure is forgotten, and no success is claimed for a node.

``DELETIONS_SEED`` repeats a trial, ``DELETIONS_TRIALS`` says how many there are.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES
from nodeupgrade.fleet.failures import FAILURES
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

TRIALS = int(os.environ.get("DELETIONS_TRIALS", "16"))
SEED = int(os.environ.get("DELETIONS_SEED", "41"))
CHUNKS = 8
NAME, TARGET = "to-1-33", "v1.33.13"
STEPS, ATTEMPTS, ENDING = 45, 4, 90
PARTS = (
    *(Part.SUCCEED, Part.SUCCEED, Part.ROLL_BACK, Part.ROLL_BACK, Part.LIE),
    *(Part.REFUSE, Part.REFUSE_FOR_NOW, Part.FAIL_TO_ROLL_BACK, Part.HANG, Part.DIE),
)
HAPPENINGS = ("node", "node and task", "task", "machine", "register", "upgraded", "restart", "retry")


@dataclass
class Trial:
    """One rollout, and what is known of its failures without asking it."""

    seed: int
    # UIDs of the Nodes of which a failing verdict was seen since the last retry, with their names
    failed: dict[str, str] = field(default_factory=dict)
    handled: str = ""
    # when the rollout ended that was looked at last; Nodes that register later are none of its own
    ended: datetime | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - a trial, not a secret
        self.names = [f"node-{number}" for number in range(self.chance.randint(1, 4))]
        self.scene = Scene(parts={name: self.chance.choice(PARTS) for name in self.names})
        self.scene.kube.schemas = False

    async def play(self) -> UpgradeStatus:
        """Live through it; return the status in the end."""
        chance, scene = self.chance, self.scene
        for name in self.names:
            await scene.fleet.add_node(name)
            await scene.fleet.add_pod(f"web-on-{name}", name)
        waves = [{"name": "first", "size": 1}, {"name": "second", "size": "100%"}] if chance.random() < 0.4 else []
        strategy: Json = {
            "maxConcurrent": chance.randint(1, 3),
            "maxUnavailable": 4,
            "failureThreshold": chance.choice([1, 2, 3, "50%", "100%"]),
        }
        spec: Json = {
            "waves": waves,
            "strategy": strategy,
            "nodes": {
                "selector": {"matchLabels": {"pool": "web"}},
                "membership": chance.choice(["Snapshot", "Continuous"]),
            },
            "timeouts": {"node": "1m"},
        }
        await scene.apply(**spec, approvedWaves=["second"] if waves else [])
        for _ in range(STEPS):
            if chance.random() < 0.15:
                await self.befall(chance.choice(HAPPENINGS), chance.choice(self.names))
            await self.step()
        for attempt in range(ATTEMPTS):
            if (await scene.upgrade()).status.phase == "Succeeded":
                break
            await self.mend(attempt)
            for _ in range(ENDING):
                if (await scene.upgrade()).finished and not (await scene.upgrade()).retry_requested:
                    break
                await self.step()
        return (await scene.upgrade()).status

    async def befall(self, what: str, name: str) -> None:
        """Let something happen."""
        kube = self.scene.kube
        nodes = {node["metadata"]["name"] for node in await kube.list(NODES)}
        match what:
            case "node" | "node and task":
                await kube.delete(NODES, name)
                if what == "node and task":
                    await kube.delete(TASKS, name)
            case "task":
                await kube.delete(TASKS, name)
            case "machine":
                self.scene.parts[name] = Part.DIE
            case "register" | "upgraded" if name not in nodes:
                self.scene.parts[name] = self.chance.choice(PARTS)
                await self.scene.fleet.add_node(name, version=TARGET if what == "upgraded" else "v1.30.14")
            case "restart":
                self.scene.operator = self.scene.new_operator()
            case "retry":
                await self.annotate(f"token-{self.chance.random()}")

    async def mend(self, attempt: int) -> None:
        """Faults stop: nodes succeed, what could not be rolled back is repaired, and people ask for a retry."""
        scene, kube = self.scene, self.scene.kube
        status = (await scene.upgrade()).status
        scene.parts.clear()
        for body in await kube.list(NODES):
            if body["spec"].get("unschedulable") and body["metadata"]["name"] not in status.flying:
                await kube.merge(NODES, body["metadata"]["name"], {"spec": {"unschedulable": None}})
        for task in await self.tasks():
            if task.verdict is not None and task.verdict.outcome.value == "RollbackFailed":
                await kube.delete(TASKS, task.name)
        await self.annotate(f"mended-{attempt}")

    async def annotate(self, token: str) -> None:
        patch = {"metadata": {"annotations": {"nodeupgrade.dev/retry": token}}}
        await self.scene.kube.merge(UPGRADES, NAME, patch)

    async def step(self) -> None:
        """One step, and what must be true after it."""
        visible = await self.visible()
        await self.scene.step()
        upgrade = await self.scene.upgrade()
        status = upgrade.status
        if upgrade.retry_requested:  # which resets tasks one by one
            begun = {task.spec.node_uid for task in await self.tasks() if task.verdict is None}
            self.failed = {uid: name for uid, name in self.failed.items() if uid not in begun}
            visible = {uid: name for uid, name in visible.items() if uid not in begun}
        if status.last_handled_retry != self.handled:
            self.handled = status.last_handled_retry
            self.failed = {uid: name for uid, name in visible.items() if name in status.flying}
        else:
            self.failed |= visible
        await self.check(status)

    async def visible(self) -> dict[str, str]:
        """Return the failures that tasks tell of; what a retry has dropped may still be told by that of a gone Node."""
        nodes = {node["metadata"]["uid"] for node in await self.scene.kube.list(NODES)}
        flying = await self.scene.in_flight()
        failed = {task.spec.node_uid: task.name for task in await self.tasks() if is_failed(task)}
        return {uid: name for uid, name in failed.items() if uid in nodes or name in flying}

    async def check(self, status: UpgradeStatus) -> None:
        counts = status.counts
        told = counts.failed + counts.rolled_back + counts.rollback_failed
        known = {uid for uid, name in self.failed.items() if name not in status.flying}
        assert told >= len(known), f"{told} failures are told of, {len(known)} were seen: {self.failed}"
        if status.phase != "Succeeded":
            return
        assert not self.failed, f"Succeeded in spite of {self.failed}"
        if status.completed_at == self.ended:
            return
        self.ended = status.completed_at
        left = [body for body in await self.scene.kube.list(NODES) if not at_target(body)]
        skips = sum(number for reason, number in (status.skips or {}).items() if reason != "AlreadyAtTarget")
        names = [node["metadata"]["name"] for node in left]
        assert len(left) <= skips, f"Succeeded, {skips} skipped, and not upgraded: {names}"
        reason = next(each.reason for each in status.conditions if each.type == "Succeeded")
        assert not (left and reason == "AllNodesUpgraded")

    async def tasks(self) -> list[Task]:
        return [parse_task(body) for body in await self.scene.kube.list(TASKS)]


def is_failed(task: Task) -> bool:
    return task.verdict is not None and task.verdict.outcome in FAILURES


def at_target(node: Json) -> bool:
    return bool(node["status"]["nodeInfo"]["kubeletVersion"] == TARGET)


async def try_out(seed: int) -> str:
    """Make one trial and return what is wrong; empty if nothing is."""
    trial = Trial(seed)
    try:
        status = await trial.play()
    except AssertionError as problem:
        return f"seed {seed}: {problem}"
    over = status.completed_at is not None or not status.counts.total
    return "" if over and not status.in_flight else f"seed {seed}: it does not end: {status.conditions}"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_failure_is_forgotten(chunk: int) -> None:
    problems = [asyncio.run(try_out(seed)) for seed in range(SEED + chunk, SEED + TRIALS, CHUNKS)]
    assert [problem for problem in problems if problem] == []
