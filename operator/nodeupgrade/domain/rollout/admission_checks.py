"""Admission checks: is what is asked of a node possible, and may the node be touched now?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.runtimes import is_supported
from nodeupgrade.api.upgrade.nodes import CordonedPolicy, NotReadyPolicy
from nodeupgrade.api.upgrade.spec import RolloutAction, SkewPolicy
from nodeupgrade.domain.check import Check, Found, check
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.placement import unmet_placement, untolerated_taint
from nodeupgrade.domain.pods import Pod
from nodeupgrade.domain.rollout import guard
from nodeupgrade.domain.rollout.actions import Claim, Cordon, NodeAction, StartTask
from nodeupgrade.domain.rollout.candidate import (
    Candidate,
    is_being_upgraded_for_others,
    is_claimable,
    named,
    task_of_others,
    unsupported_version,
)
from nodeupgrade.domain.rollout.orphaned_cordons import is_orphaned
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelet.layout import is_newer_than_server, is_too_old_for_server, supported_minors_behind

# What is asked: can its kubelet be replaced by this version?

EMBEDDED = ("k3s", "rke2", "k0s")
"""Distributions that embed the kubelet in their own program or run it from there, by prefix of the version's suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliance:
    """A distribution whose kubelet lies where nothing can be written, and whose kubelets have plain versions."""

    name: str
    tool: str  # what upgrades its kubelets
    os_image: str = ""  # how ``status.nodeInfo.osImage`` of its nodes begins
    label: str = ""  # a label that its nodes have instead

    def runs(self, node: NodeView) -> bool:
        """Report whether a node is one of this distribution."""
        return (self.os_image != "" and node.os_image.startswith(self.os_image)) or self.label in node.labels


APPLIANCES = (
    Appliance(name="Talos", os_image="Talos (", tool="talosctl upgrade-k8s"),
    Appliance(
        name="Bottlerocket",
        os_image="Bottlerocket ",
        tool="its image, by its update operator or by new nodes",
    ),
    Appliance(name="OpenShift", label="node.openshift.io/os_id", tool="oc adm upgrade"),
    Appliance(name="MicroK8s", label="microk8s.io/cluster", tool="snap refresh microk8s"),
)
"""As far as the API server shows them; on the node others are refused, too."""


@check(Reason.UNSUPPORTED_VERSION, Hazard.PAIR_UNKNOWN, acceptable=False)
def node_version_is_known(candidate: Candidate) -> Found | None:
    """The hashes stored on the node can be recomputed, which is possible only for known versions."""
    problem = unsupported_version(candidate.node.kubelet_version)
    return f"{named(candidate)}: {problem}" if problem else None


@check(Reason.ALREADY_AT_TARGET, acceptable=False)
def node_is_not_at_target(candidate: Candidate) -> Found | None:
    """The node does not run the target version already, unless another rollout is changing it right now."""
    if candidate.current != candidate.target or is_being_upgraded_for_others(candidate):
        return None
    return f"{named(candidate)} runs {candidate.target} already"


@check(Reason.UNSUPPORTED_SOURCE, acceptable=False)
def source_is_wanted(candidate: Candidate) -> Found | None:
    """The node's version matches ``spec.fromVersions``, a list of versions or version prefixes."""
    wanted, runs = candidate.spec.from_versions, str(candidate.current)
    if not wanted or any(runs == start or runs.startswith((f"{start}.", f"{start}+", f"{start}-")) for start in wanted):
        return None
    return f"{named(candidate)} runs {runs}, which is none of spec.fromVersions ({', '.join(wanted)})"


@check(Reason.DOWNGRADE_NOT_ALLOWED, acceptable=False)
def downgrade_is_allowed(candidate: Candidate) -> Found | None:
    """The target is not older than the current version, unless ``spec.allowDowngrade`` is set."""
    if candidate.target >= candidate.current or candidate.spec.allow_downgrade:
        return None
    return f"{named(candidate)} runs {candidate.current}, which is newer than {candidate.target}"


@check(
    Reason.VERSION_SKEW,
    Hazard.KUBELET_NEWER_THAN_API,
    Hazard.KUBELET_TOO_OLD_FOR_API,
    history.THREE_MINORS_BEHIND,
    acceptable=False,
)
def skew_is_supported(candidate: Candidate) -> Found | None:
    """The API server supports the target, unless the upgrade brings a node that is too old closer to it."""
    if candidate.spec.skew_policy is SkewPolicy.WARN:
        return None
    target, server = candidate.target, candidate.fleet.server
    if is_newer_than_server(target, server):
        return f"{target} is newer than the API server {server}"
    if is_too_old_for_server(target, server) and target < candidate.current:
        allowed = supported_minors_behind(target)
        return f"{target} is more than {allowed} minors older than the API server {server}"
    return None


@check(Reason.CONTROL_PLANE_CHANGING, Hazard.CONTROL_PLANE_IN_CHANGE)
def api_servers_agree(candidate: Candidate) -> Found | None:
    """All API servers that run as pods are of one minor, so that the kubelet is not newer than one of them."""
    minors = sorted({(server.major, server.minor): str(server) for server in candidate.fleet.api_servers}.items())
    if len(minors) < 2 or candidate.spec.skew_policy is SkewPolicy.WARN:
        return None
    return f"the API servers are of several versions: {', '.join(version for _, version in minors)}"


@check(Reason.CORDON_REMOVES_TRAFFIC, Hazard.CORDON_REMOVES_TRAFFIC, history.CORDONED_NODES_SERVE)
def cordoned_node_keeps_its_traffic(candidate: Candidate) -> Found | None:
    """The control plane does not take a cordoned node out of the load balancers of Services."""
    change = history.CORDONED_NODES_SERVE
    if change.applies_to(candidate.fleet.server) or candidate.node.unschedulable:
        return None
    return (
        f"{named(candidate)} is cordoned for its upgrade, and a control plane of {candidate.fleet.server} takes "
        f"cordoned nodes out of the load balancers of cloud providers ({change.reference}, changed in {change.since})"
    )


@check(Reason.UNSUPPORTED_NODE, Hazard.KUBELET_NOT_A_SERVICE, acceptable=False)
def kubelet_can_be_replaced(candidate: Candidate) -> Found | None:
    """The node runs Linux, and its kubelet is a program of its own."""
    system, suffix = candidate.node.platform.partition("-")[0], candidate.current.suffix
    if system != "linux":
        return f"{named(candidate)} runs {system or 'an unknown operating system'}, not linux"
    if any(suffix.startswith(f"+{distribution}") for distribution in EMBEDDED):
        return f"{named(candidate)} runs {candidate.current}, whose kubelet is part of its distribution"
    if found := next((each for each in APPLIANCES if each.runs(candidate.node)), None):
        return f"{named(candidate)} runs {found.name}, whose kubelet is part of it and is upgraded with {found.tool}"
    return None


@check(Reason.UNSUPPORTED_RUNTIME, acceptable=False)
def runtime_is_supported(candidate: Candidate) -> Found | None:
    """The hashes stored by the node's runtime can be rewritten."""
    if is_supported(candidate.node.runtime_name):
        return None
    return f"{named(candidate)} runs {candidate.node.runtime or 'an unknown runtime'}"


@check(
    Reason.READINESS_GUARD_UNAVAILABLE,
    Hazard.ENDPOINTS_LOST,
    history.ADMISSION_POLICIES,
    history.PROBES_KEPT,
    acceptable=False,
)
def required_guard_is_possible(candidate: Candidate) -> Found | None:
    """Where the readiness guard is required, it is available."""
    verify = candidate.spec.verify
    if verify.readiness_guard is not GuardPolicy.REQUIRE or not probe_delay.is_guarded(verify, candidate.target):
        return None
    if (problem := guard.obstacle(candidate.fleet.server, candidate.fleet.guard)) is None:
        return None
    return f"{named(candidate)} cannot be guarded: {problem}"


@check(Reason.ARTIFACT_UNAVAILABLE, Hazard.PROGRAM_WRONG, acceptable=False)
def artifact_has_platform(candidate: Candidate) -> Found | None:
    """There is a kubelet binary for the node's platform."""
    if candidate.spec.artifact.serves(candidate.node.platform):
        return None
    return f"spec.artifact has no {candidate.node.platform}, which is the platform of {named(candidate)}"


# The state that it is in: may it be touched now?

PATIENCE = timedelta(minutes=5)
"""How long a node may be not Ready before it is skipped.

Restarting a kubelet or a runtime takes seconds, a reboot minutes. By default, Kubernetes leaves the pods of such a node
in place for the same time.
"""


REMOVERS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler removes it",
    "karpenter.sh/disrupted": "Karpenter replaces it",
    "karpenter.sh/disruption": "Karpenter replaces it",
}
"""Keys of taints that mean the end of a node, and what they say."""

_BEGINNING: tuple[type[NodeAction], ...] = (Claim, Cordon, StartTask)
"""The writes that begin the upgrade of a node."""


@check(Reason.OBJECT_UNREADABLE, acceptable=False)
def task_is_readable(candidate: Candidate) -> Found | None:
    """The node's task can be read; one of a newer version, or a damaged one, may belong to a run in progress."""
    problem = candidate.fleet.unreadable.get(candidate.node.name)
    return f"{named(candidate)} has a task for which holds: {problem}" if problem else None


@check(Reason.OVERLAP_CONFLICT, acceptable=False)
def node_is_free(candidate: Candidate) -> Found | None:
    """No other rollout holds the node."""
    task = task_of_others(candidate)
    if task is None or is_claimable(task, candidate.fleet.active_upgrades):
        return None
    return f"{named(candidate)} is held by NodeUpgrade {task.spec.upgrade_ref.name}"


@check(Reason.CORDON_LEFT_BEHIND, Reason.CORDONED_BY_OTHERS, acceptable=False)
def node_is_not_cordoned_by_others(candidate: Candidate) -> Found | None:
    """The node is not cordoned by someone else, unless ``spec.nodes.cordoned`` includes such nodes."""
    node = candidate.node
    foreign = node.unschedulable and node.cordoned_by != candidate.fleet.upgrade.uid
    if not foreign or candidate.spec.nodes.cordoned is CordonedPolicy.INCLUDE:
        return None
    if is_orphaned(node, candidate.fleet.active_upgrades):
        return f"{named(candidate)} is still cordoned by a NodeUpgrade that is gone or over"
    because = f"{named(candidate)} is cordoned, and not by this NodeUpgrade"
    return Finding(reason=Reason.CORDONED_BY_OTHERS, detail=because)


@check(Reason.NODE_SKIPPED, acceptable=False)
def node_is_not_to_be_skipped(candidate: Candidate) -> Finding | None:
    """Nobody has annotated the node to be left out."""
    return _asked(candidate, Reason.NODE_SKIPPED, "to be skipped", candidate.node.skip)


@check(Reason.NODE_HELD, acceptable=False)
def node_is_not_held(candidate: Candidate) -> Finding | None:
    """Nobody has annotated the node to be held; ``action: Plan`` examines it all the same, since it touches nothing."""
    if candidate.spec.action is RolloutAction.PLAN:
        return None
    return _asked(candidate, Reason.NODE_HELD, "held", candidate.node.hold)


@check(Reason.HELD_BY_POD, acceptable=False)
def no_pod_holds_the_node(candidate: Candidate) -> Found | None:
    """No pod of the node is annotated to hold it, or they have held it for as long as ``spec.timeouts.podHold`` allows.

    Whoever makes pods is trusted less than whoever annotates Nodes: the time runs from when the rollout first found the
    node held, whatever becomes of its pods.
    """
    holding = [pod for pod in _active_pods(candidate) if pod.hold is not None]
    if not holding or candidate.spec.action is RolloutAction.PLAN:
        return None
    since = None if candidate.task is None else candidate.task.held_since
    until = (since or candidate.now) + candidate.spec.timeouts.pod_hold
    if candidate.now >= until:
        return None
    why, others = holding[0].hold, len(holding) - 1
    by = f"pod {holding[0]}" + (f" and {others} more" if others else "") + (f": {why}" if why else "")
    return f"{named(candidate)} is held until {timestamp(until)} by {by}"


def _asked(candidate: Candidate, reason: Reason, what: str, why: str | None) -> Finding | None:
    if why is None:
        return None
    return Finding(reason=reason, detail=f"{named(candidate)} is {what} by annotation{f': {why}' if why else ''}")


@check(Reason.NODE_NOT_READY, acceptable=False)
def node_is_ready(candidate: Candidate) -> Found | None:
    """The node is Ready; if not, it is skipped or waited for, as ``spec.nodes.notReady`` says.

    Even if it is to be skipped, the rollout waits for ``PATIENCE`` first: many nodes are not Ready for a moment, and a
    rollout that skipped them at once would end without them and report success.
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


@check(Reason.NODE_IN_OTHER_HANDS, Hazard.ACTORS_REACT)
def node_is_to_stay(candidate: Candidate) -> Found | None:
    """No autoscaler is removing the node, kured does not reboot it, and nobody says that the node is maintained."""
    because = next((REMOVERS[taint.key] for taint in candidate.node.taints if taint.key in REMOVERS), "")
    if not because and candidate.node.reboots:
        because = "kured reboots it"
    if not because and candidate.node.maintenance:
        because = f"its condition {candidate.node.maintenance[0]} is True"
    detail = f"{named(candidate)} is being changed by another tool: {because}"
    return detail if because else None


@check(Reason.WRITE_REFUSED, acceptable=False)
def writes_are_accepted(candidate: Candidate) -> Finding | None:
    """The API server accepts the writes that begin the upgrade; if not, they are retried while other nodes continue."""
    name, node, task = candidate.node.name, candidate.node, candidate.task
    done = {  # even if the response to the write was lost
        Claim: task is not None and task.spec.upgrade_ref.uid == candidate.fleet.upgrade.uid,
        Cordon: node.unschedulable and node.cordoned_by == candidate.fleet.upgrade.uid,
    }
    due = (action for action in _BEGINNING if not done.get(action))
    known = (setback for action in due if (setback := candidate.fleet.setbacks.get((name, action))) is not None)
    setback = next((each for each in known if candidate.now < each.again), None)
    return None if setback is None else setback.finding(name)


@check(Reason.NODE_AFFINITY_NOT_MET, Hazard.PLACEMENT_NOT_MET)
def placements_are_met(candidate: Candidate) -> Iterator[Found]:
    """The node meets node selector and required node affinity of all its pods; a starting kubelet kills other pods."""
    for pod in _active_pods(candidate):
        if problem := unmet_placement(pod, candidate.node):
            detail = f"pod {pod} on {named(candidate)}: {problem}"
            yield pod, detail


@check(Reason.TAINT_NOT_TOLERATED, Hazard.TAINT_NOT_TOLERATED, history.TAINTS_CHECKED)
def taints_are_tolerated(candidate: Candidate) -> Iterator[Found]:
    """All pods tolerate the node's NoExecute taints; from 1.24 on, a starting kubelet kills those that do not."""
    if not any(map(history.TAINTS_CHECKED.applies_to, (candidate.current, candidate.target))):
        return
    for pod in _active_pods(candidate):
        if taint := untolerated_taint(pod, candidate.node):
            detail = f"pod {pod} on {named(candidate)} does not tolerate the taint {taint.key}:{taint.effect}"
            yield pod, detail


def _active_pods(candidate: Candidate) -> list[Pod]:
    return [pod for pod in candidate.pods or () if not pod.finished and not pod.terminating]


BEFORE_PODS: tuple[Check[Candidate], ...] = (
    task_is_readable,
    node_version_is_known,
    node_is_not_at_target,
    source_is_wanted,
    node_is_not_to_be_skipped,
    downgrade_is_allowed,
    skew_is_supported,
    api_servers_agree,
    kubelet_can_be_replaced,
    runtime_is_supported,
    required_guard_is_possible,
    artifact_has_platform,
    node_is_free,
    node_is_not_cordoned_by_others,
    node_is_ready,
    node_is_not_under_pressure,
    node_is_to_stay,
    writes_are_accepted,
    node_is_not_held,
)
"""What must be done is told first; that a node is held, last, since nothing else stands in its way then."""

WITH_PODS: tuple[Check[Candidate], ...] = (
    placements_are_met,
    taints_are_tolerated,
    no_pod_holds_the_node,
)

WARNINGS: tuple[Check[Candidate], ...] = (cordoned_node_keeps_its_traffic,)
"""Checks that only warn."""
