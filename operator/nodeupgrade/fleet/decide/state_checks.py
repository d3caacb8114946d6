"""Checks of a node's state: may the node be touched now?"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.nodes import CordonedPolicy, NotReadyPolicy
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.cluster.placement import unmet_placement, untolerated_taint
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.fleet.actions import Claim, Cordon, NodeAction, StartTask
from nodeupgrade.fleet.cordons.orphaned import is_orphaned
from nodeupgrade.fleet.decide.candidate import Candidate, named
from nodeupgrade.fleet.decide.holder import could_not_roll_back
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.probe_delay import keeps_probes

PATIENCE = timedelta(minutes=5)
"""How long a node may be not Ready before it is skipped.

A kubelet or runtime restarts in seconds, a machine in minutes; Kubernetes evicts pods after the same time by default.
"""

REMOVERS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler removes it",
    "karpenter.sh/disrupted": "Karpenter replaces it",
    "karpenter.sh/disruption": "Karpenter replaces it",
}
"""Keys of taints that announce the end of a node, and their meanings."""

LONGHORN = "longhorn.io/component"
"""The label of the pods that serve Longhorn's volumes."""

_OF_A_RUN_LEFT_BEHIND = (
    "wait until it is; if no process or unit of nodeupgrade runs on the node any more, uncordon it, or delete its "
    "NodeUpgradeTask"
)

_BEGINNING: tuple[type[NodeAction], ...] = (Claim, Cordon, StartTask)
"""The writes that begin the upgrade of a node."""


@check(Reason.OBJECT_UNREADABLE, acceptable=False)
def task_is_readable(candidate: Candidate) -> Found | None:
    """The node's task can be read; one of a newer version, or a damaged one, may belong to a run in progress."""
    problem = candidate.problem
    return f"the task of {named(candidate)} cannot be read: {problem}" if problem else None


@check(Reason.OVERLAP_CONFLICT, acceptable=False)
def node_is_free(candidate: Candidate) -> Found | None:
    """No other rollout holds the node."""
    if (holder := candidate.holder) is None:
        return None
    if holder.gone:
        return _left_behind(candidate, holder.upgrade)
    return f"{named(candidate)} is held by NodeUpgrade {holder.upgrade}"


def _left_behind(candidate: Candidate, upgrade: str) -> Finding:
    """Say what is left of a rollout that nobody looks after any more, and what a person can do about it."""
    lost = candidate.task is not None and could_not_roll_back(candidate.task)
    what = "could not be rolled back" if lost else "is not over"
    remedy = "repair the node, then delete its NodeUpgradeTask" if lost else _OF_A_RUN_LEFT_BEHIND
    detail = f"{named(candidate)}: a run of NodeUpgrade {upgrade}, which has ended or is gone, {what}"
    return Finding(reason=Reason.OVERLAP_CONFLICT, detail=detail, remedy=remedy)


@check(Reason.CORDON_LEFT_BEHIND, Reason.CORDONED_BY_OTHERS, acceptable=False)
def node_is_not_cordoned_by_others(candidate: Candidate) -> Found | None:
    """The node is not cordoned by someone else, unless ``spec.nodes.cordoned`` includes such nodes.

    A cordon that a NodeUpgrade left behind is never included: it may be all that shows a run in progress.
    """
    node = candidate.node
    if not candidate.cordoned_by_others:
        return None
    if is_orphaned(node, candidate.active_upgrades):
        return f"{named(candidate)} is still cordoned by a NodeUpgrade that is gone or over"
    if candidate.spec.nodes.cordoned is CordonedPolicy.INCLUDE:
        return None
    detail = f"{named(candidate)} is cordoned, and not by this NodeUpgrade"
    return Finding(reason=Reason.CORDONED_BY_OTHERS, detail=detail)


@check(Reason.SKIPPED_BY_ANNOTATION, acceptable=False)
def node_is_not_to_be_skipped(candidate: Candidate) -> Finding | None:
    """The node has no annotation by which it is skipped."""
    return _annotated(candidate, Reason.SKIPPED_BY_ANNOTATION, "to be skipped", candidate.node.skip)


@check(Reason.HELD_BY_ANNOTATION, acceptable=False)
def node_is_not_held(candidate: Candidate) -> Finding | None:
    """The node has no annotation by which it is held; ``action: Plan``, which touches nothing, examines it anyway."""
    if candidate.spec.action is RolloutAction.PLAN:
        return None
    return _annotated(candidate, Reason.HELD_BY_ANNOTATION, "held", candidate.node.hold)


@check(Reason.HELD_BY_POD, acceptable=False)
def no_pod_holds_the_node(candidate: Candidate) -> Found | None:
    """No pod of the node is annotated to hold it, or they have held it for as long as ``spec.timeouts.podHold`` allows.

    Authors of pods are trusted less than those of Nodes, so the time starts when the rollout first finds the node held,
    whatever becomes of its pods.
    """
    holding = [pod for pod in _active_pods(candidate) if pod.hold is not None]
    if not holding or candidate.spec.action is RolloutAction.PLAN:
        return None
    if candidate.now >= (until := held_until(candidate.spec, candidate.task, candidate.now)):
        return None
    why, others = holding[0].hold, len(holding) - 1
    by = f"pod {holding[0]}" + (f" and {others} more" if others else "") + (f": {why}" if why else "")
    return f"{named(candidate)} is held until {timestamp(until)} by {by}"


def held_until(spec: UpgradeSpec, task: Task | None, now: datetime) -> datetime:
    """Return until when pods may hold a node."""
    since = None if task is None else task.held_since
    return (since or now) + spec.timeouts.pod_hold


def _annotated(candidate: Candidate, reason: Reason, what: str, why: str | None) -> Finding | None:
    if why is None:
        return None
    return Finding(reason=reason, detail=f"{named(candidate)} is {what} by annotation{f': {why}' if why else ''}")


@check(Reason.NODE_NOT_READY, acceptable=False)
def node_is_ready(candidate: Candidate) -> Found | None:
    """The node is Ready; if not, it is skipped or waited for, as ``spec.nodes.notReady`` says.

    Even if it is to be skipped, the rollout waits for ``PATIENCE`` first: many nodes are not Ready for a moment, and
    the rollout would end without them and report success.
    """
    node, because = candidate.node, f"{named(candidate)} is not Ready"
    if node.ready:
        return None
    if candidate.spec.nodes.not_ready is not NotReadyPolicy.SKIP:
        return because
    if node.ready_changed is not None and candidate.now < (until := node.ready_changed + PATIENCE):
        return f"{because} and is waited for until {timestamp(until)}"
    return Finding(reason=Reason.NODE_NOT_READY, detail=because, severity=Severity.SKIP)


@check(Reason.NODE_UNDER_PRESSURE, Hazard.NODE_UNDER_PRESSURE)
def node_is_not_under_pressure(candidate: Candidate) -> Found | None:
    """The node has enough memory, disk space and process IDs; otherwise its kubelet is about to evict pods."""
    if not candidate.node.pressures:
        return None
    return f"{named(candidate)} reports {', '.join(candidate.node.pressures)}"


@check(Reason.CONFLICTING_NODE_OPERATION, Hazard.ACTORS_REACT)
def node_is_to_stay(candidate: Candidate) -> Found | None:
    """No autoscaler removes the node, kured does not reboot it, and no condition says that it is under maintenance."""
    because = next((REMOVERS[taint.key] for taint in candidate.node.taints if taint.key in REMOVERS), "")
    if not because and candidate.node.reboots:
        because = "kured reboots it"
    if not because and candidate.node.maintenance:
        because = f"its condition {candidate.node.maintenance[0]} is True"
    detail = f"{named(candidate)} is being changed by another tool: {because}"
    return detail if because else None


@check(Reason.DESCHEDULER_EVICTS, Hazard.ACTORS_REACT)
def pods_stay_on_a_cordoned_node(candidate: Candidate) -> Finding | None:
    """No descheduler evicts the pods of cordoned nodes, as the plugin RemovePodsViolatingNodeTaints does.

    With ``spec.nodes.cordon: false`` no node is cordoned. What any author of a pod can claim is only a warning.
    """
    if candidate.cordoned_by_others or not candidate.deschedulers or not candidate.spec.nodes.cordon:
        return None
    first = candidate.deschedulers[0]
    severity = None if first.believed else Severity.WARN
    if first.known:
        detail = f"{named(candidate)} would be cordoned, and the descheduler of {first.name} then evicts its pods"
        return Finding(reason=Reason.DESCHEDULER_EVICTS, detail=detail, severity=severity)
    detail = f"the policy of the descheduler of {first.name} is not known; it may evict the pods of {named(candidate)}"
    remedy = f"{Reason.DESCHEDULER_EVICTS.remedy}; if it is so already, accept this check" if first.believed else None
    return Finding(reason=Reason.DESCHEDULER_EVICTS, detail=detail, remedy=remedy, severity=severity)


@check(Reason.WRITE_REFUSED, acceptable=False)
def writes_are_accepted(candidate: Candidate) -> Finding | None:
    """The API server accepts the writes that begin the upgrade; if not, they are retried while other nodes continue."""
    name, node, task = candidate.node.name, candidate.node, candidate.task
    done = {  # even if the response to the write was lost
        Claim: task is not None and task.spec.upgrade_ref.uid == candidate.upgrade.uid,
        Cordon: node.unschedulable and node.cordoned_by == candidate.upgrade.uid,
    }
    due = (action for action in _BEGINNING if not done.get(action))
    known = (setback for action in due if (setback := candidate.setbacks.get((name, action))) is not None)
    setback = next((each for each in known if candidate.now < each.again), None)
    return None if setback is None else setback.finding(name)


@check(Reason.NODE_AFFINITY_NOT_MET, Hazard.PLACEMENT_NOT_MET)
def placements_are_met(candidate: Candidate) -> Iterator[Found]:
    """The node meets node selector and required node affinity of all its pods; a starting kubelet kills other pods."""
    for pod in _active_pods(candidate):
        if problem := unmet_placement(pod, candidate.node):
            detail = f"pod {pod} on {named(candidate)}: {problem}"
            yield pod, detail


@check(Reason.ENDPOINTS_WOULD_BE_LOST, Hazard.ENDPOINTS_LOST, history.PROBES_KEPT, warns=True)
def longhorn_stays_ready(candidate: Candidate) -> Found | None:
    """Longhorn's pods stay Ready during the upgrade; it may rebuild the replicas of a node whose pods were unready."""
    guarded = candidate.guard_obstacle is None and candidate.spec.verify.readiness_guard is not GuardPolicy.OFF
    if guarded or keeps_probes(candidate.target):
        return None
    found = next((pod for pod in _active_pods(candidate) if LONGHORN in pod.labels), None)
    if found is None:
        return None
    return (
        f"pod {found} of Longhorn is unready for a moment while {named(candidate)} is upgraded, and no guard prevents "
        "it: Longhorn may rebuild the replicas on the node"
    )


@check(Reason.TAINT_NOT_TOLERATED, Hazard.TAINT_NOT_TOLERATED, history.TAINTS_CHECKED)
def taints_are_tolerated(candidate: Candidate) -> Iterator[Found]:
    """All pods tolerate the node's NoExecute taints; from 1.24 on, a starting kubelet kills those that do not."""
    if not any(map(history.TAINTS_CHECKED.applies_to, (candidate.current, candidate.target))):
        return
    for pod in _active_pods(candidate):
        # The gate for comparing values is a kubelet's, whose configuration only the node's own check knows.
        if taint := untolerated_taint(pod, candidate.node, compares=True):
            detail = f"pod {pod} on {named(candidate)} does not tolerate the taint {taint.key}:{taint.effect}"
            yield pod, detail


def _active_pods(candidate: Candidate) -> list[Pod]:
    return [pod for pod in candidate.pods or () if not pod.finished and not pod.terminating]
