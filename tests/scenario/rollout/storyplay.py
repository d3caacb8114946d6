"""Plays stories in the in-memory cluster and writes down what is decided."""

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import yaml

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ForbiddenError, NotFoundError, Resource
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.fleet.actions import (
    AddFinalizer,
    Claim,
    Cordon,
    CreateAgent,
    DeleteAgent,
    FreeSlot,
    Hold,
    NodeAction,
    ReleaseTask,
    Reopen,
    RestoreCordon,
    StartTask,
    Wait,
    WriteStatus,
)
from nodeupgrade.fleet.decide.ledger import ledger_of
from nodeupgrade.fleet.decide.state_checks import PATIENCE
from nodeupgrade.fleet.failures import next_look
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube, merged
from tests.scenario.rollout.harness import GUARD, Crash, Scene, upgrade_object
from tests.scenario.rollout.scripted_health import COMES_TO
from tests.scenario.rollout.storyfile import Applied, Happening, Story, at_path
from tests.scenario.rollout.storywords import PARTS, summed_up, told

IDLE = timedelta(seconds=15)
QUIET_PASSES, BUSY_PASSES = 4, 400
"""Passes without anything new after which nothing more is expected; for longer while work goes on."""

ROUTINE = (AddFinalizer, Cordon, StartTask, CreateAgent, RestoreCordon, ReleaseTask, WriteStatus)
"""Decisions that follow from others, told only in stories that tell every step."""

STATES: dict[str, Json] = {
    "held": {"metadata": {"annotations": {"nodeupgrade.dev/hold": "INC-7"}}},
    "cordoned": {"spec": {"unschedulable": True}},
    "not ready": {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
    "control plane": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    "arm64": {"status": {"nodeInfo": {"architecture": "arm64"}}},
}


class ShuffledKube(InMemoryKube):
    """Lists objects in another order each time."""

    chance = random.Random(0)  # noqa: S311 - it shuffles

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        found = await InMemoryKube.list(self, resource, labels=labels, fields=fields, recent=recent)
        self.chance.shuffle(found)
        return found


@dataclass
class Player:
    """Plays one story once."""

    story: Story
    seed: int

    def __post_init__(self) -> None:
        self.scene = Scene(version=self.story.server, start=self.story.clock, kube_type=ShuffledKube)
        ShuffledKube.chance = random.Random(self.seed)  # noqa: S311 - it shuffles
        self.busy = False
        self.told: list[str] = []
        self.repeated: dict[str, str] = {}
        self.waiting = list(self.story.happenings)
        self.to_apply = list(self.story.upgrades)

    async def play(self) -> str:
        """Play to the end and return the narration."""
        for name, states in self.story.nodes.items():
            await self.add_node(name, *states)
        quiet = 0
        while quiet < (BUSY_PASSES if self.busy else QUIET_PASSES) and self.elapsed <= self.story.ends:
            revision = self.scene.kube._revision
            happened, acted = await self.let_happen(), await self.pass_over_all()
            await self.scene.fleet.tick()
            changed = happened or acted or self.scene.kube._revision != revision
            step = timedelta(seconds=1) if changed else await self.next_moment()
            quiet = 0 if changed or step > IDLE else quiet + 1
            self.scene.now += step
        return "\n".join(self.told) + "\n"

    @property
    def elapsed(self) -> timedelta:
        """Time since the story began."""
        return self.scene.now - self.story.clock

    async def pass_over_all(self) -> bool:
        """Let the operator look at every NodeUpgrade once; whether it did anything."""
        acted = False
        for applied in self.story.upgrades:
            try:
                actions = await self.scene.look(applied.name)
            except Crash:
                self.write("", "-- the operator dies and is started again")
                await self.restart_operator()
                actions, acted = (), True
            self.tell(applied.name, actions)
            acted |= any(not isinstance(action, Wait | Hold) for action in actions)
            await self.scene.observe(applied.name)
        swept = [each for each in await self.scene.operator.sweep() if isinstance(each, RestoreCordon)]
        for each in swept:
            self.write("", f"sweep: {told(each)}")
        return acted or bool(swept)

    async def next_moment(self) -> timedelta:
        """Nothing is going on: go to when something may be, as far as that is known."""
        due = [each.at for each in self.waiting] + [each.at for each in self.to_apply]
        moments = [self.story.clock + at for at in due if at is not None]
        self.busy = False
        for applied in self.story.upgrades:
            try:
                status = (await self.scene.upgrade(applied.name)).status
            except NotFoundError:
                continue
            told = {condition.reason for condition in status.conditions if condition.type == "Reconciling"}
            self.busy |= bool(status.in_flight) or told <= {Reason.PROGRESSING, Reason.AWAITING_HEALTH_CHECKS}
            moments += [status.next_window] if status.next_window else []
            if status.current_wave is not None and status.current_wave.soak_until is not None:
                moments.append(status.current_wave.soak_until)
            fleet = await self.scene.operator.gather(applied.name)
            ledger = ledger_of(fleet, self.scene.now)
            looks = (next_look(task, ledger.last_judged) for task in ledger.tasks)
            moments += [again for again in looks if again is not None]
        nodes = map(view_node, await self.scene.kube.list(NODES))
        moments += [node.ready_changed + PATIENCE for node in nodes if node.ready_changed and not node.ready]
        later = [moment - self.scene.now for moment in moments if moment > self.scene.now]
        return min([*later, IDLE]) if self.busy or not later else min(later)

    # ── narrating ───────────────────────────────────────────────────────────────────────────────────────────────

    def tell(self, upgrade: str, actions: tuple[NodeAction, ...]) -> None:
        """Write down decisions; what is repeated is told once."""
        held = ""
        claims: list[NodeAction] = []
        for action in actions:
            if isinstance(action, Claim | Reopen):
                claims.append(action)
            elif self.is_told(action):
                line = told(action)
                if isinstance(action, Hold):
                    held = line
                if not isinstance(action, Wait | Hold) or line not in self.repeated.values():
                    self.write(upgrade, line)
                if isinstance(action, Wait):
                    self.repeated[action.node] = line
        for line in summed_up(claims):
            self.write(upgrade, line)
        self.repeated[upgrade] = held

    def is_told(self, action: NodeAction) -> bool:
        """Whether this story tells of such a decision."""
        if isinstance(action, Wait) and " reports " in action.message:
            return False
        if self.story.every_step:
            return True
        if isinstance(action, FreeSlot | DeleteAgent | Wait | Hold):
            return action.reason is not Reason.PROGRESSING or isinstance(action, Hold)
        return not isinstance(action, ROUTINE)

    def write(self, upgrade: str, line: str) -> None:
        """Add a line with its time."""
        now = f"{self.scene.now:%Y-%m-%d %H:%M:%S}" if self.story.dated else f"{render_duration(self.elapsed):>8}"
        whose = f" [{upgrade}]" if len(self.story.upgrades) > 1 and upgrade else ""
        self.told.append(f"{now}{whose}  {line}")

    # ── happenings ──────────────────────────────────────────────────────────────────────────────────────────────

    async def let_happen(self) -> bool:
        """Apply and do what is due."""
        due: list[Happening | Applied] = [each for each in self.to_apply if each.at <= self.elapsed]
        due += [each for each in self.waiting if await self.is_due(each)]
        for each in due:
            match each:
                case Applied(name=name, spec=spec):
                    self.to_apply.remove(each)
                    if each.at:
                        self.write("", f"-- somebody applies NodeUpgrade {name}")
                    await self.scene.kube.create(UPGRADES, upgrade_object(name, **spec))
                case Happening(what=what):
                    self.waiting.remove(each)
                    if each.at != timedelta():
                        self.write("", f"-- {what}")
                    await self.happen(what)
        return bool(due)

    async def is_due(self, happening: Happening) -> bool:
        """Whether its time has come, or what it waits for is so."""
        if happening.at is not None:
            return happening.at <= self.elapsed
        for pattern, holds in CONDITIONS.items():
            if found := re.fullmatch(pattern, happening.when):
                return bool(await holds(self, *found.groups()))
        raise ValueError(f"{self.story.path.name}: cannot tell when {happening.when!r} is")

    async def happen(self, what: str) -> None:
        """Do what a line of the story says."""
        for pattern, do in DEEDS.items():
            if found := re.fullmatch(pattern, what):
                await do(self, *found.groups())
                return
        raise ValueError(f"{self.story.path.name}: cannot do {what!r}")

    async def add_node(self, name: str, *states: str) -> None:
        """Add a node with one pod."""
        version = "v1.30.14"
        changes: Json = {}
        for state in states:
            if found := re.fullmatch(r"runs (v\S+)", state):
                version = found[1]
            elif "=" in state:
                key, _, value = state.partition("=")
                changes = merged(changes, {"metadata": {"labels": {key: value}}})
            elif state == "with the operator":
                self.scene.operator_node = name
                self.scene.operator = self.scene.new_operator()
            else:
                changes = merged(changes, STATES[state])
        await self.scene.fleet.add_node(name, version=version, overrides=changes)
        await self.scene.fleet.add_pod(f"web-on-{name}", name)

    async def play_part(self, node: str, part: str) -> None:
        self.scene.parts[node] = PARTS[part]

    async def lose_agents(self, node: str, times: str) -> None:
        self.scene.pods_lost[node] = int(times)

    async def reject_agents(self, node: str, reason: str | None, words: str | None) -> None:
        self.scene.fleet.rejected.pop(node, None)
        if reason is not None:
            self.scene.fleet.rejected[node] = (reason, words or "")

    async def refuse(self, verb: str | None, name: str | None) -> None:
        def deny(asked: str, about: str) -> None:
            if (asked, about) == (verb, name):
                raise ForbiddenError(f'admission webhook "policy.example" denied the request for {about}')

        self.scene.kube.before_write = deny

    async def cordon(self, node: str) -> None:
        await self.scene.kube.merge(NODES, node, {"spec": {"unschedulable": True}})

    async def uncordon(self, node: str) -> None:
        await self.scene.kube.merge(NODES, node, {"spec": {"unschedulable": None}})

    async def annotate_node(self, node: str, word: str, value: str) -> None:
        patch = {"metadata": {"annotations": {f"nodeupgrade.dev/{word}": value or None}}}
        await self.scene.kube.merge(NODES, node, patch)

    async def set_ready(self, node: str, no: str | None) -> None:
        status = (await self.scene.kube.get(NODES, node))["status"]
        now = timestamp(self.scene.now)
        status["conditions"] = [{"type": "Ready", "status": "False" if no else "True", "lastTransitionTime": now}]
        await self.scene.kube.replace_status(NODES, node, status)

    async def delete_node(self, node: str) -> None:
        await self.scene.kube.delete(NODES, node)

    async def collect_node(self, node: str) -> None:
        """Delete a Node, and its task with it, as the garbage collector of a cluster does."""
        await self.delete_node(node)
        await self.delete_task(node)

    async def register(self, node: str, version: str | None) -> None:
        await self.scene.fleet.add_node(node, version=version or "v1.30.14")

    async def replace_node(self, node: str) -> None:
        await self.scene.kube.delete(NODES, node)
        await self.scene.fleet.add_node(node)

    async def join(self, node: str, states: str | None) -> None:
        await self.add_node(node, *(state.strip() for state in (states or "").split(",") if state.strip()))

    async def label(self, node: str, key: str, value: str) -> None:
        await self.scene.kube.merge(NODES, node, {"metadata": {"labels": {key: value or None}}})

    async def delete_task(self, node: str) -> None:
        await self.scene.kube.delete(TASKS, node)

    async def delete_upgrade(self, name: str | None) -> None:
        await self.scene.kube.delete(UPGRADES, name or self.story.upgrades[0].name)

    async def set_field(self, path: str, value: str, name: str | None) -> None:
        patch = {"spec": at_path(path, yaml.safe_load(value))}
        await self.scene.kube.merge(UPGRADES, name or self.story.upgrades[0].name, patch)

    async def annotate(self, key: str, value: str, name: str | None) -> None:
        upgrade = name or self.story.upgrades[0].name
        value = (await self.scene.upgrade(upgrade)).uid if value == "its UID" else value
        patch = {"metadata": {"annotations": {f"nodeupgrade.dev/{key}": value or None}}}
        await self.scene.kube.merge(UPGRADES, upgrade, patch, field_manager="kubectl-annotate")

    async def install_guard(self, removed: str | None) -> None:
        if removed:
            await self.scene.kube.delete(GUARD, GUARD_NAME)
        else:
            await self.scene.install_guard()

    async def set_health(self, check: str, state: str, detail: str | None) -> None:
        self.scene.health[check] = replace(COMES_TO[state], detail=detail or "")

    async def crash_after_write(self) -> None:
        def crash(_verb: str, _name: str) -> None:
            self.scene.kube.after_write = lambda _verb, _name: None
            raise Crash

        self.scene.kube.after_write = crash

    async def is_guarded(self, node: str, no: str | None) -> bool:
        named = [node in (body.get("data") or {}) for body in await self.scene.kube.list(GUARD)]
        return any(named) != bool(no)

    async def restart_operator(self) -> None:
        self.scene.operator = self.scene.new_operator()

    async def is_in_flight(self, node: str) -> bool:
        flying = [await self.scene.in_flight(each.name) for each in self.story.upgrades]
        return any(node in names for names in flying)

    async def is_cordoned(self, node: str) -> bool:
        return bool((await self.scene.kube.get(NODES, node))["spec"].get("unschedulable"))

    async def reports(self, node: str, phase: str) -> bool:
        try:
            task = await self.scene.kube.get(TASKS, node)
        except NotFoundError:
            return False
        status = task.get("status", {})
        return (status.get("runID"), status.get("phase")) == (task["spec"]["runID"], phase)

    async def is_claimed(self, node: str) -> bool:
        return any(task["metadata"]["name"] == node for task in await self.scene.kube.list(TASKS))

    async def is_phase(self, phase: str) -> bool:
        return await self.upgrade_is(self.story.upgrades[0].name, phase)

    async def upgrade_is(self, name: str, phase: str) -> bool:
        try:
            return (await self.scene.upgrade(name)).status.phase == phase
        except NotFoundError:
            return False


Deed = Callable[..., Awaitable[Any]]

_NODE = r"([\w.]+-[\w.-]*\d)"
_OF = r"(?: (?:of|on) (\S+))?"

DEEDS: dict[str, Deed] = {
    rf"{_NODE} ({'|'.join(PARTS)})": Player.play_part,
    rf"the agent on {_NODE} dies (\d+) times": Player.lose_agents,
    rf"the kubelet of {_NODE} (?:rejects agents: (\w+), (.*)|takes agents again)": Player.reject_agents,
    r"a webhook (?:refuses to (create|merge) (\S+)|refuses nothing any more)": Player.refuse,
    rf"somebody cordons {_NODE}": Player.cordon,
    rf"somebody uncordons {_NODE}": Player.uncordon,
    rf"somebody annotates {_NODE} with (hold|skip)=(.*)": Player.annotate_node,
    rf"{_NODE} becomes (not )?ready": Player.set_ready,
    rf"{_NODE} is deleted": Player.delete_node,
    rf"{_NODE} is deleted with its task": Player.collect_node,
    rf"{_NODE} registers again(?:: runs (v\S+))?": Player.register,
    rf"{_NODE} is replaced": Player.replace_node,
    rf"{_NODE} joins(?:: (.*))?": Player.join,
    rf"somebody labels {_NODE} ([^=]+)=(.*)": Player.label,
    rf"somebody deletes the task of {_NODE}": Player.delete_task,
    r"somebody deletes NodeUpgrade(?: (\S+))?": Player.delete_upgrade,
    rf"somebody sets (\S+) to (.*?){_OF}": Player.set_field,
    rf"somebody annotates ([a-z]+)=(.*?){_OF}": Player.annotate,
    rf"health check ([\w-]+) ({'|'.join(COMES_TO)})(?:, (.*))?": Player.set_health,
    r"the operator is started anew": Player.restart_operator,
    r"the operator dies after its next write": Player.crash_after_write,
    r"the readiness guard is (?:installed|(removed))": Player.install_guard,
}

CONDITIONS: dict[str, Deed] = {
    rf"{_NODE} is in flight": Player.is_in_flight,
    rf"{_NODE} is cordoned": Player.is_cordoned,
    rf"{_NODE} is claimed": Player.is_claimed,
    rf"{_NODE} is (not )?guarded": Player.is_guarded,
    rf"{_NODE} reports (\w+)": Player.reports,
    r"the rollout is (\w+)": Player.is_phase,
    r"NodeUpgrade (\S+) is (\w+)": Player.upgrade_is,
}
