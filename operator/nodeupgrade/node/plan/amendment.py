"""Amend a plan by what changed on the node until its kubelet was stopped: what ended leaves it, what came joins it.

The agent, which has the pods, proves and plans what came; the executor believes it only about containers that it sees
itself. See docs/decisions/executor.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nodeupgrade.api.values import ContainerId, PodUid, RunId, SandboxId
from nodeupgrade.cluster.owner_changes import Planned
from nodeupgrade.node.plan.plan import (
    AwaitedContainer,
    CompletingPod,
    PlannedContainer,
    RunPlan,
    StaticPodPin,
    StopHook,
)
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory

AMENDMENT_SCHEMA = 1
LARGEST_HOOKS = 64 * 1024
"""Characters of the commands of preStop hooks of all that came, which the journal records: to read millions of words
takes seconds, again at each step.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What runs and is not in the plan, as the executor sees it: the question to the agent."""

    schema: int
    run_id: RunId
    inventory: Inventory  # the containers, and the sandboxes of their pods
    others: tuple[ContainerInstance, ...] = ()  # what else the runtime holds of their pods


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArrivals:
    """The agent's answer."""

    schema: int
    run_id: RunId
    asked: tuple[ContainerId, ...]  # the containers that it is about
    containers: tuple[PlannedContainer, ...] = ()
    awaited: tuple[AwaitedContainer, ...] = ()  # containers of their pods that do not run
    completing: tuple[CompletingPod, ...] = ()
    hooks: tuple[StopHook, ...] = ()
    owned: Planned = Planned()  # what their owners want by now
    pins: tuple[StaticPodPin, ...] = ()  # manifests of static pods among them
    obstacle: str | None = None  # why they cannot be taken in


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What changed between planning and the kubelet's stop. The journal has it before anything is written."""

    ended: tuple[ContainerId, ...] = ()  # containers of the plan
    left: tuple[SandboxId, ...] = ()  # sandboxes of the plan in which nothing runs any more
    came: tuple[PlannedContainer, ...] = ()
    awaited: tuple[AwaitedContainer, ...] = ()  # what has yet to come of their pods
    inventory: Inventory = Inventory()  # the instances that came
    completing: tuple[CompletingPod, ...] = ()
    hooks: tuple[StopHook, ...] = ()
    owned: Planned = Planned()
    pins: tuple[StaticPodPin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How what runs differs from what was planned."""

    ended: tuple[PlannedContainer, ...]
    came: tuple[ContainerInstance, ...]  # containers that run
    created: tuple[ContainerInstance, ...]  # containers that are being started
    ending: tuple[ContainerInstance, ...]  # containers of the plan whose process is gone

    @property
    def pending(self) -> bool:
        """Whether the runtime is about to report something else."""
        return bool(self.created or self.ending) or any(c.process is None for c in self.came)


def changes_since(plan: RunPlan, now: Inventory) -> Changes:
    """Compare what runs with the plan. A container that changed otherwise is none of this, and is not taken in."""
    present = {container.id: container for container in now.containers}
    planned, known = {c.id for c in plan.containers}, {c.id for c in plan.baseline.containers}
    begun = {c.id for c in plan.baseline.containers if c.process is not None}
    left_over = now.left_over()
    return Changes(
        ended=tuple(c for c in plan.containers if c.id not in present or present[c.id].state is ContainerState.EXITED),
        came=tuple(c for c in now.running() if c.id not in planned),
        created=tuple(c for c in now.containers if c.state is ContainerState.CREATED and c.id not in known | left_over),
        ending=tuple(c for c in now.running() if c.process is None and c.id in begun),
    )


def restarted(plan: RunPlan, came: ContainerInstance) -> PlannedContainer | None:
    """Return the plan for a container that was restarted with the hash that is proved for it; ``None`` if it was not.

    The executor needs no agent for that: pod, name and stored hash determine what the new kubelet computes. Where its
    start matters, the agent has to look at it as at all that came.
    """
    before = (c for c in plan.containers if (c.pod.uid, c.name, c.before) == (came.pod.uid, came.name, came.hashes))
    same = next(before, None)
    return None if same is None or same.start_matters or same.has_devices else replace(same, id=came.id)


def amended(plan: RunPlan, change: Amendment) -> RunPlan:
    """Return the plan with what came, and without what ended."""
    gone, came = frozenset(change.ended), {c.id for c in change.inventory.containers}
    shield = plan.shield and replace(
        plan.shield, hooks=(*(h for h in plan.shield.hooks if h.container not in gone), *change.hooks)
    )
    fresh = {s.id for s in change.inventory.sandboxes} | set(change.left)
    pods = {each.pod for each in change.completing}
    containers = (*(c for c in plan.containers if c.id not in gone), *change.came)
    return replace(
        plan,
        containers=containers,
        awaited=_awaited(plan, change, containers),
        baseline=Inventory(
            containers=(
                *(c for c in plan.baseline.containers if c.id not in gone | came),
                *change.inventory.containers,
            ),
            sandboxes=(*(s for s in plan.baseline.sandboxes if s.id not in fresh), *change.inventory.sandboxes),
        ),
        completing=(*(each for each in plan.completing if each.pod not in pods), *change.completing),
        shield=shield,
        owned=plan.owned.and_later(change.owned),
        pins=(*(pin for pin in plan.pins if pin.path not in {each.path for each in change.pins}), *change.pins),
    )


def _awaited(plan: RunPlan, change: Amendment, running: Iterable[PlannedContainer]) -> tuple[AwaitedContainer, ...]:
    """Return what does not run and may be started, by either kubelet: a rollback must know both hashes."""
    runs = {(c.pod.uid, c.name) for c in running}
    known = (*plan.awaited, *_ended(plan, change), *change.awaited)
    newest = {(each.pod, each.name): each for each in known}
    return tuple(each for whose, each in newest.items() if whose not in runs)


def _ended(plan: RunPlan, change: Amendment) -> Iterator[AwaitedContainer]:
    for each in plan.containers:
        before, after = each.before.container, each.after.container
        if each.id in change.ended and before and after and before != after:
            yield AwaitedContainer(pod=each.pod.uid, name=each.name, before=before, after=after)


def amendment_of(
    plan: RunPlan, now: Inventory, came: tuple[PlannedContainer, ...], answer: PlannedArrivals | None = None
) -> Amendment:
    """Return what changed, from a look at everything.

    A sandbox is only watched while something runs in it, or will again: a kubelet ends that of a pod that is over.
    """
    changes, running = changes_since(plan, now), {c.sandbox_id for c in now.running()}
    present = {c.id for c in now.running()}
    before = {c.id: c.sandbox_id for c in plan.baseline.running()}
    came = tuple(c for c in came if c.id in present)
    ids = {c.id for c in came}
    entered = {c.sandbox_id for c in now.running() if c.id in ids}
    over = {before[c.id] for c in changes.ended if c.may_complete and c.id in before} - running
    ready = {s.id for s in now.sandboxes if s.ready}
    lost = {s.id for s in plan.baseline.sandboxes if s.ready} - ready - running
    return Amendment(
        ended=tuple(c.id for c in changes.ended),
        left=tuple(sorted(over | lost)),
        came=came,
        awaited=() if answer is None else answer.awaited,
        inventory=Inventory(
            containers=tuple(c for c in now.containers if c.id in ids or c in changes.created),
            sandboxes=tuple(s for s in now.sandboxes if s.id in entered - {*before.values()}),
        ),
        completing=() if answer is None else answer.completing,
        hooks=(*_kept_hooks(plan, came), *(() if answer is None else answer.hooks)),
        owned=Planned() if answer is None else answer.owned,
        pins=() if answer is None else answer.pins,
    )


def _kept_hooks(plan: RunPlan, came: tuple[PlannedContainer, ...]) -> Iterator[StopHook]:
    """Yield the hooks of containers that were restarted, about which the agent was not asked."""
    of = {} if plan.shield is None else {hook.container: hook for hook in plan.shield.hooks}
    before = {(c.pod.uid, c.name, c.before): of[c.id] for c in plan.containers if c.id in of}
    for each in came:
        if (hook := before.get((each.pod.uid, each.name, each.before))) is not None:
            yield replace(hook, container=each.id)


def unfit(answer: PlannedArrivals, asked: Arrivals) -> str | None:
    """Return why an answer must not be believed; ``None`` if it may be.

    It may only be about containers that the executor sees itself, each with the hash that it sees stored.
    """
    if (answer.schema, answer.run_id) != (AMENDMENT_SCHEMA, asked.run_id):
        return "the answer belongs to another run, or to another version of this program"
    if answer.obstacle is not None:
        return answer.obstacle
    seen = {c.id: c for c in asked.inventory.containers}
    pods: set[PodUid] = {c.pod.uid for c in seen.values()}
    for planned in answer.containers:
        instance = seen.pop(planned.id, None)
        if instance is None:
            return f"the answer is about container {planned.id[:12]}, which was not asked about"
        if (planned.name, planned.pod, planned.before) != (instance.name, instance.pod, instance.hashes):
            return f"{instance.label} is another container than the answer says, or stores another hash"
        if (planned.before.container is None) != (planned.after.container is None):
            return f"{instance.label} would store no hash any more"
    if seen:
        return f"{next(iter(seen.values())).label} is missing in the answer"
    ids = {c.id for c in asked.inventory.containers}
    about = {PodUid(each.uid) for each in answer.pins} | {each.pod for each in answer.completing}
    about |= {each.pod for each in answer.awaited} | {each.pod for each in answer.owned.containers}
    about |= {each.pod for each in answer.owned.manifests}
    if any(h.container not in ids for h in answer.hooks) or not about <= pods:
        return "the answer is about pods that were not asked about"
    if sum(len(word) + 1 for hook in answer.hooks for word in hook.command) > LARGEST_HOOKS:
        return f"the commands of its preStop hooks are longer than {LARGEST_HOOKS >> 10} KiB"
    return None
