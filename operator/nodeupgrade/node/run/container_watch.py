"""Detect harm to containers that ran before, frequently and cheaply, from the moment a kubelet starts.

It polls instead of subscribing to events: a listing takes 10 ms on a node with 110 pods, not every runtime has events
over the CRI, and an event would save a quarter of a second at most.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath

from nodeupgrade.api.limits import CONTAINERS_LISTED, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime, ContainerId
from nodeupgrade.cluster import owner_changes
from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.manifest_uid import digests_of
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import inventory_comparison
from nodeupgrade.node.run.kubelet_log import quoted, read_log
from nodeupgrade.node.run.shield_use import require_none_refused
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from nodeupgrade.node.verification.ended_containers import (
    Departures,
    Evidence,
    change_of_owner,
    divide,
    may_be_harmless,
)
from nodeupgrade.node.verification.ended_pods import is_final, is_over
from nodeupgrade.node.verification.verification import Difference, DifferenceKind, completed, consistent, unplanned

LOOK_SECONDS = 0.25
EARLY_SECONDS = 10.0
"""How long to poll frequently: a kubelet synchronises every pod in its first seconds."""
LATER_LOOK_SECONDS = 1.0
LAST_LOOK_SECONDS = 30.0
"""How long the final report waits for a runtime that does not answer; no decision depends on it."""
NEVER = AwakeTime(0.0)
_FOR_GOOD = frozenset({DifferenceKind.STOPPED, DifferenceKind.RESTARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one look."""

    seen: Departures = Departures(damage=())
    inventory: Inventory = field(default_factory=Inventory)
    complete: bool = True  # whether the runtime answered every request; if not, nothing is proven
    knows_requests: bool = False  # whether the runtime's log showed all that it was requested to stop
    why: str = ""  # what made a look fail of which only a report depends
    # differences that could not be confirmed because the runtime stopped answering
    suspected: tuple[Difference, ...] = ()


@dataclass(slots=True)
class Watch:
    """Looks when it is called, at a limited rate; raises as soon as something is harmed."""

    node: Node
    plan: RunPlan
    _began: AwakeTime = NEVER
    _next: AwakeTime = NEVER
    _waiting_since: AwakeTime | None = None
    _silent_since: AwakeTime | None = None
    _suspected: tuple[Difference, ...] = ()

    @classmethod
    def from_now(cls, node: Node, plan: RunPlan, *, first_look: float = LOOK_SECONDS) -> "Watch":
        """Return a watch whose first look is ``first_look`` seconds from now."""
        now = node.clock.awake()
        return cls(node, plan, now, now + first_look)

    def __call__(self) -> None:
        """Look, if the next look is due.

        Raises:
            StepFailed: a container was stopped or replaced, and did not end by itself; or the shield refused to do so.
        """
        require_none_refused(self.node, self.plan)
        if self.node.clock.awake() >= self._next:
            self.is_content()

    def is_content(self, *, thorough: bool = False) -> bool:
        """Look now, and report whether the runtime showed everything and nothing is pending.

        Raises:
            StepFailed: as above; or the runtime has not answered for too long. Until then the watch waits: a kubelet
                cannot end anything through a runtime that does not answer, and a rollback needs the runtime too.
        """
        now = self.node.clock.awake()
        often = self._waiting_since is not None or now < self._began + EARLY_SECONDS
        self._next = now + (LOOK_SECONDS if often else LATER_LOOK_SECONDS)
        result = look(self.node, self.plan, thorough=thorough)
        if not result.complete:
            self._tolerate_silence(now, result.suspected)
            return False
        self._silent_since, self._suspected = None, ()
        damage = result.seen.damage
        if not damage:
            self._waiting_since = None
            return True
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if now - self._waiting_since < EXCUSE_SECONDS and may_be_harmless(self.plan, result.inventory, damage):
            return False
        if self.node.services.shuts_down():  # its kubelet ends its pods, and must not be stopped over that
            return False
        raise StepFailed(
            f"the new kubelet changed what ran before: {_describe(self.node, self.plan, damage)}",
            reason=Reason.CONTAINER_RESTARTED,
        )

    def _tolerate_silence(self, began: AwakeTime, suspected: tuple[Difference, ...]) -> None:
        self._silent_since = began if self._silent_since is None else self._silent_since
        self._suspected = suspected or self._suspected
        seconds = self.node.clock.awake() - self._silent_since
        if seconds < self.plan.limits.runtime_restart:
            return
        last = f"; its last answer: {_describe(self.node, self.plan, self._suspected)}" if self._suspected else ""
        raise StepFailed(
            f"the runtime has not answered for {seconds:.0f} s; whether the containers still run is unknown{last}",
            reason=Reason.RUNTIME_DID_NOT_ANSWER,
        )


def watch_quietly(node: Node, plan: RunPlan, seconds: float, *, one_kubelet: bool) -> None:
    """Glance now and then for so many seconds."""
    end = node.clock.awake() + seconds
    while (left := end - node.clock.awake()) > 0:
        glance(node, plan, one_kubelet=one_kubelet)
        node.clock.sleep(min(left, LATER_LOOK_SECONDS))


def glance(node: Node, plan: RunPlan, *, one_kubelet: bool) -> None:
    """Look, so that what ends is seen before a kubelet removes what is left of it. No decision depends on it."""
    with suppress(Exception):
        look(node, plan, one_kubelet=one_kubelet)


def last_look(node: Node, plan: RunPlan, *, one_kubelet: bool) -> Look:
    """Look thoroughly, and wait for pending evidence. The result is only reported."""
    began = node.clock.awake()
    while True:
        try:
            result = look(node, plan, thorough=True, one_kubelet=one_kubelet)
        except (StepFailed, Transient) as error:
            result = Look(complete=False, why=shorten(str(error)))
        seconds = node.clock.awake() - began
        damage = result.seen.damage
        waits = damage and may_be_harmless(plan, result.inventory, damage) and seconds < EXCUSE_SECONDS
        if not waits and (result.complete or seconds >= LAST_LOOK_SECONDS):
            return result
        node.clock.sleep(LOOK_SECONDS)


def look(node: Node, plan: RunPlan, *, thorough: bool = False, one_kubelet: bool = True) -> Look:
    """Look once, and again if anything seems to have changed.

    If ``thorough``, also read what costs a call per item, such as start times and addresses. Unless ``one_kubelet``,
    since only one has run since the run has restarted the runtime, if at all, the runtime's log does not go back far
    enough, and nothing counts as ended by itself.
    """
    found: tuple[Difference, ...] = ()
    try:
        first = node.runtime.inventory(full=thorough)
        if not (found := unplanned(plan, first)) and not completed(plan, first):
            return Look(inventory=first)
        second, _ = inventory_comparison.compare(node, plan, of=frozenset(each.pod.uid for each in found))
    except (Transient, Unimplemented):  # without its CRI, as it may start, no kubelet can end anything either
        return Look(complete=False, suspected=found)
    seen, done = Departures(damage=()), completed(plan, second)
    evidence, asked = Evidence(), cache(lambda: _asked_to_stop(node, plan) if one_kubelet else None)
    if done and (_are_fresh(node, done) or thorough):
        node.stopped.update(done & (asked() or frozenset()))
    if found := consistent(found, unplanned(plan, second, node.stopped)):
        evidence = _evidence(node, plan, asked())
        seen = divide(plan, second, found, evidence)
    node.fell.update(each.container for each in seen.ended if each.kind in _FOR_GOOD and each.container is not None)
    node.over.update(done, _over_for_good(plan, second, seen.ended))
    node.over.difference_update(node.stopped)
    for each in seen.changed:
        change = change_of_owner(plan, second, each, evidence.owners)
        acted_on = each.pod.uid if change is not None and change.of_pod else each.container
        if acted_on is not None and each.kind in _FOR_GOOD and change is not None:
            node.owners.setdefault(acted_on, change)
    return Look(seen=seen, inventory=second, knows_requests=evidence.asked is not None)


def _are_fresh(node: Node, done: Iterable[ContainerId]) -> bool:
    """Report whether one exited lately: a request to stop it may follow its end, which its ``preStop`` hook brings."""
    now = node.clock.awake()
    since = [node.done.setdefault(each, now) for each in done]
    return any(now - each < EXCUSE_SECONDS for each in since)


def _over_for_good(plan: RunPlan, now: Inventory, ended: Iterable[Difference]) -> Iterator[ContainerId]:
    """Yield what has ended and is not started again: with its pod, or because its pod starts nothing again."""
    pods = {each.pod: each for each in plan.completing}
    for each in ended:
        container = None if each.container is None else now.container(each.container)
        pod = pods.get(each.pod.uid)
        if container is not None and pod is not None and (is_final(container, pod) or is_over(pod, now.containers)):
            yield container.id


def _evidence(node: Node, plan: RunPlan, asked: frozenset[str] | None) -> Evidence:
    ended = inventory_comparison.recorded_ended(node.recorded(Step.START_KUBELET))
    owners = owner_evidence(node, plan)
    return Evidence(
        asked=asked,
        owners=owners,
        with_runtime=ended,
        fell=frozenset(node.fell),
        over=frozenset(node.over),
        changed=frozenset(node.owners),
        shielded=plan.shield is not None and bool((node.recorded(Step.RAISE_SHIELD) or {}).get("ready", True)),
    )


def owner_evidence(node: Node, plan: RunPlan) -> owner_changes.Evidence:
    """Return what shows what owners changed: the agent's answers so far, and the manifests of static pods."""
    read = node.files.read
    return node.owner_changes().with_manifests(plan.owned, lambda path: digests_of(read(PurePosixPath(path))))


def _asked_to_stop(node: Node, plan: RunPlan) -> frozenset[str] | None:
    """Return what the runtime was requested to stop since the kubelet's start; ``None`` if its log may lack a request.

    Any user of the node can fill the journal, which then gives up its oldest lines.
    """
    kubelet = node.services.status(plan.swap.unit).started
    if kubelet is None:
        return None
    log = read_log(node, plan.runtime_unit, since=kubelet)
    runtime = node.services.status(plan.runtime_unit).started  # asked later: the log is of this process or an older one
    if runtime is None or not runtime < kubelet:
        return None
    try:
        return node.runtime.asked_to_stop(log) if node.services.remembers_start(plan.swap.unit) else None
    except StepFailed:
        return None


def _describe(node: Node, plan: RunPlan, damage: tuple[Difference, ...]) -> str:
    log = read_log(node, plan.swap.unit)
    listed = "; ".join(f"{each}{_evidence_of(plan, each, log)}" for each in damage[:CONTAINERS_LISTED])
    more = f" and {len(damage) - CONTAINERS_LISTED} more" if len(damage) > CONTAINERS_LISTED else ""
    return f"{listed}{more}"


def _evidence_of(plan: RunPlan, difference: Difference, log: tuple[str, ...]) -> str:
    """Return the hash that the kubelet found, and its log line about the container."""
    planned = next((c for c in plan.containers if c.id == difference.container), None)
    return "" if planned is None else f" (it carried hash {planned.after.container}{quoted(log, planned.id)})"
