"""Sum up a run that ends: look at the node a last time, and write the run's report."""

from collections.abc import Callable
from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.task.status import OwnedChange, OwnerChange
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.owner_changes import owner_changes
from nodeupgrade.errors import Transient
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.journal.plan_in_effect import ended_before, plan_in_effect
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import kernel_settings, shield_use
from nodeupgrade.node.run.container_watch import LOOK_SECONDS, Look, last_look, owner_evidence, watch_quietly
from nodeupgrade.node.run.inventory_comparison import recorded_ended
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.state_machine import Finish
from nodeupgrade.node.run.static_pod_recreation import recreated
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from nodeupgrade.node.shield.shield import RefusedCall
from nodeupgrade.node.verification.ended_containers import may_end_with_runtime
from nodeupgrade.node.verification.verification import affected

LONGEST_GRACE = 120.0
"""How long, in seconds, the report waits for the end of what the shield has let through; a pod may have more."""

T = TypeVar("T")


def sum_up(node: Node, written: RunPlan, journal: Journal, finish: Finish) -> RunReport:
    """Inspect the node a last time and return the run's report.

    After a rollback, first give the old kubelet time to act on the containers that it finds, unless it was watched for
    that long with the shield up.
    """
    plan = plan_in_effect(written, journal)
    calls: tuple[RefusedCall, ...] = _seen(lambda: _let_through(node, plan, journal), ())
    one_kubelet = finish.outcome is Outcome.UPGRADED or has_one_kubelet(journal)
    final = _seen(
        lambda: _last_look(node, plan, finish.outcome, after_calls=bool(calls), one_kubelet=one_kubelet),
        Look(complete=False),
    )
    found = affected(each.label for each in final.seen.damage)
    # What had changed before the run touched anything, for which it turned back, is none of its doing.
    before_the_run = frozenset(label for record in journal.records for label in record.changed)
    labels = tuple(label for label in found if label not in before_the_run)
    ended = (
        *affected(each.label for each in final.seen.ended),
        *(label for label in found if label in before_the_run),
    )
    changed = affected(each.label for each in final.seen.changed)
    replaced = recreated(plan, final.inventory) if final.complete else ()
    before = [container.label for container in plan.baseline.running()]
    not_the_same = {*labels, *ended, *changed, *replaced}
    running = {container.id for container in final.inventory.running()}
    doubtful = {i: label for record in journal.records for i, label in record.doubtful.items() if label not in found}
    with_runtime = recorded_ended(journal.payload(Step.START_KUBELET))
    return RunReport(
        outcome=finish.outcome,
        reason=finish.reason,
        message="".join(
            (
                finish.why,
                _seen(lambda: _runtime_restarts(node, plan), ""),
                _seen(lambda: _calls_let_through(node, plan, calls), ""),
                _seen(lambda: kernel_settings.raised_since(node, journal.payload(Step.STOP_KUBELET) or {}), ""),
                final.why and f"; the last look at the containers failed: {final.why}",
            )
        ),
        # The journal does not record when the rescue script started the kubelet.
        down_seconds=None if node.rescue() is Rescue.DONE else _down_seconds(journal),
        baseline=len(before),
        same=sum(label not in not_the_same for label in before),
        rewritten=len(plan.rewrites()) if finish.outcome is Outcome.UPGRADED else 0,
        restarted=len(labels),
        listed=labels[:CONTAINERS_LISTED],
        ended=ended,
        changed=changed,
        owner_changes=_with_taken_back(node, plan, _seen(lambda: changes_by_owners(node, written, plan), ())),
        ended_before=ended_before(written, journal),
        with_runtime=affected(
            each.label
            for each in final.seen.ended
            if each.container in with_runtime and may_end_with_runtime(plan, each)
        ),
        recreated=replaced,
        unrecognised=tuple(sorted(label for i, label in doubtful.items() if i in running)),
        unrecognised_ended=tuple(sorted(label for i, label in doubtful.items() if i not in running)),
        looked=final.complete,
        rebooted=any(record.boot != node.clock.boot() for record in journal.records),
    )


def _seen(look: Callable[[], T], otherwise: T) -> T:
    """Look, whatever that fails on: an executor that ends here ends here each time it is started."""
    with suppress(Exception):
        return look()
    return otherwise


def has_one_kubelet(journal: Journal) -> bool:
    """Report whether the runtime runs on that ran before, and no other kubelet was started than the old one."""
    return journal.mark(Step.RESTART_RUNTIME) is None and journal.mark(Step.START_KUBELET) is None


def changes_by_owners(node: Node, written: RunPlan, plan: RunPlan) -> tuple[OwnedChange, ...]:
    """Return the first changes that owners made to what ran when the run was planned, and the manifests they added."""
    known = {source.path for source in written.owned.manifests}
    added = {source.pod for source in plan.owned.manifests if source.path not in known}
    pods = {each.pod.uid: str(each.pod) for each in (*plan.watched().sandboxes, *written.watched().sandboxes)}
    changes = (
        OwnedChange(name=pods[pod] if container is None else f"{pods[pod]}/{container}", change=change)
        for pod, container, change in owner_changes(written.owned, owner_evidence(node, written))
        if pod in pods
    )
    came = (OwnedChange(name=pods[pod], change=OwnerChange.MANIFEST_ADDED) for pod in added if pod in pods)
    return tuple(islice(chain(changes, came), CONTAINERS_LISTED))


def _with_taken_back(node: Node, plan: RunPlan, changes: tuple[OwnedChange, ...]) -> tuple[OwnedChange, ...]:
    """Return the changes of owners with those that were taken back once a kubelet had acted on them."""
    named, known = {change.name for change in changes}, dict[ContainerId | PodUid, str]()
    known |= {container.id: container.label for container in plan.baseline.containers}
    known |= {sandbox.pod.uid: str(sandbox.pod) for sandbox in plan.baseline.sandboxes}
    more = {known[each]: change for each, change in node.owners.items() if each in known}
    taken_back = (OwnedChange(name=name, change=change) for name, change in more.items() if name not in named)
    return (*changes, *taken_back)[:CONTAINERS_LISTED]


def _let_through(node: Node, plan: RunPlan, journal: Journal) -> tuple[RefusedCall, ...]:
    """Return the calls that the shield refused until it was lowered, and wait until the kubelet has repeated them."""
    undone = journal.first(Step.ARM_DEAD_MAN, Mark.UNDONE)
    if undone is None or undone.boot != node.clock.boot():
        return ()
    # The journal's clock also counts time spent suspended; by it, this is never later than it was.
    lowered = node.clock.awake() + (undone.monotonic - node.clock.monotonic())
    calls = shield_use.let_through(node, plan, lowered)
    instances = {call.instance for call in calls}
    known = [(c.id, c.process) for c in plan.baseline.containers] + [(s.id, s.process) for s in plan.baseline.sandboxes]
    processes = [process for name, process in known if name in instances and process is not None]
    end = lowered + shield_use.QUIET_SECONDS + (min(plan.shield.serves_on, LONGEST_GRACE) if plan.shield else 0.0)
    while node.clock.awake() < end and _may_run(node, processes):
        node.clock.sleep(LOOK_SECONDS)
    return calls


def _may_run(node: Node, processes: list[Process]) -> bool:
    try:
        return bool(node.runtime.alive(processes))
    except Transient:
        return True


def _last_look(node: Node, plan: RunPlan, outcome: Outcome, *, after_calls: bool, one_kubelet: bool) -> Look:
    if after_calls:  # what was ended may be about to be started again
        watch_quietly(node, plan, EXCUSE_SECONDS, one_kubelet=one_kubelet)
    if outcome is Outcome.ROLLED_BACK:
        running = node.services.status(plan.swap.unit).started
        watched = 0.0 if running is None else node.clock.awake() - running
        watch_quietly(node, plan, plan.limits.rollback_settle - watched, one_kubelet=one_kubelet)
    return last_look(node, plan, one_kubelet=one_kubelet)


def _runtime_restarts(node: Node, plan: RunPlan) -> str:
    if plan.shield is None or not (times := node.shield.restarts()):
        return ""
    return f" (the runtime was restarted {counted(times, 'time')} under the shield, which was raised again)"


def _calls_let_through(node: Node, plan: RunPlan, calls: tuple[RefusedCall, ...]) -> str:
    if not calls:
        return ""
    call = f"{calls[0]}{shield_use.and_more(len(calls))}{shield_use.kubelet_lines(node, plan, calls[0])}"
    return f"; the shield was lowered while kubelet {plan.from_version} wanted to {call}"


def _down_seconds(journal: Journal) -> float | None:
    """Return the seconds without a healthy kubelet, during the upgrade and during a later rollback."""
    new, old = journal.first(Step.START_KUBELET, Mark.DONE), journal.first(Step.STOP_KUBELET, Mark.UNDONE)
    windows = [(journal.first(Step.STOP_KUBELET, Mark.DOING), new or old)]
    if new is not None and (again := journal.first(Step.START_KUBELET, Mark.UNDOING)) is not None:
        windows.append((again, old))
    total = 0.0
    for stopping, started in windows:
        if stopping is None or started is None or started.boot != stopping.boot:
            return None
        total += started.monotonic - stopping.monotonic
    return round(total, 3)
