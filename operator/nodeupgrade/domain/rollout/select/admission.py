"""Admission checks: may this node be upgraded now? The first check that objects decides.

They run before anything is written or cordoned, and once more before the node's task is started.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.runtimes import is_supported
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.nodes import CordonedPolicy, NotReadyPolicy
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import SkewPolicy, UpgradeSpec
from nodeupgrade.domain.check import Check, check_one
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.placement import unmet_placement, untolerated_taint
from nodeupgrade.domain.pods import Pod
from nodeupgrade.domain.rollout import guard
from nodeupgrade.domain.rollout.actions import Claim, Cordon, StartTask
from nodeupgrade.domain.rollout.backoff import Setbacks
from nodeupgrade.domain.rollout.guard import GuardParameters
from nodeupgrade.domain.rollout.select.membership import is_claimable, serves
from nodeupgrade.domain.rollout.select.orphaned_cordons import is_orphaned
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.skew import is_newer_than_server, is_too_old_for_server, supported_minors_behind
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet, era_of

EMBEDDED = ("k3s", "rke2", "k0s")
"""Distributions that embed the kubelet in their own program or run it from there, by prefix of the version's suffix."""

PATIENCE = timedelta(minutes=5)
"""How long a node may be not Ready before it is skipped.

Restarting a kubelet or a runtime takes seconds, a reboot minutes. By default, Kubernetes leaves the pods of such a node
in place for the same time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node and the facts that admission checks need.

    Attributes:
        now: wall-clock time, UTC.
        pods: the node's pods; None if they have not been read.
        unreadable: why the Node or its task cannot be parsed; empty if they can.
        setbacks: writes that failed, for this node and others.
    """

    upgrade: Upgrade
    spec: UpgradeSpec
    node: NodeView
    server: KubeletVersion
    now: datetime
    task: Task | None = None
    active_upgrades: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] | None = None
    unreadable: str = ""
    guard: GuardParameters | None = None
    setbacks: Setbacks = field(default_factory=dict)

    @property
    def target(self) -> KubeletVersion:
        """The target version."""
        return _version(self.spec.version)

    @property
    def current(self) -> KubeletVersion:
        """The version that the node runs; valid only after ``node_version_is_known`` has passed."""
        return _version(self.node.kubelet_version)


_BEGINNING = tuple(action.__name__ for action in (Claim, Cordon, StartTask))
"""The writes that begin the upgrade of a node."""


def judge(candidate: Candidate) -> Finding | None:
    """Return the first finding of the checks whose facts are known, or None."""
    checks = BEFORE_PODS if candidate.pods is None else (*BEFORE_PODS, *WITH_PODS)
    return next((finding for check in checks for finding in check(candidate)), None)


def warnings(candidate: Candidate) -> tuple[Finding, ...]:
    """Return warnings about an upgrade that is admitted nevertheless."""
    target, server = candidate.target, candidate.server
    if is_newer_than_server(target, server):
        newer = f"{target} is newer than the API server {server}"
        return (Finding(reason=Reason.VERSION_SKEW, detail=newer, severity=Severity.WARN),)
    if is_too_old_for_server(target, server):
        far = f"{target} is more than {supported_minors_behind(target)} minors older than the API server {server}"
        return (Finding(reason=Reason.STILL_SKEWED, detail=far),)
    return ()


@lru_cache(maxsize=256)
def unsupported_version(version: str) -> str | None:
    """Return why container hashes of a kubelet version cannot be computed, or None if they can."""
    try:
        era_of(KubeletVersion.parse(version))
    except UnsupportedKubelet as error:
        return str(error)
    return None


@check_one(Reason.OBJECT_UNREADABLE)
def task_is_readable(candidate: Candidate) -> Finding | None:
    """The node's task can be read; one of a newer version, or a damaged one, may belong to a run in progress."""
    if not candidate.unreadable:
        return None
    detail = f"{_named(candidate)} has a task for which holds: {candidate.unreadable}"
    return Finding(reason=Reason.OBJECT_UNREADABLE, detail=detail)


@check_one(Reason.UNSUPPORTED_VERSION)
def node_version_is_known(candidate: Candidate) -> Finding | None:
    """The hashes stored on the node can be recomputed, which is possible only for known versions."""
    problem = unsupported_version(candidate.node.kubelet_version)
    return Finding(reason=Reason.UNSUPPORTED_VERSION, detail=f"{_named(candidate)}: {problem}") if problem else None


@check_one(Reason.ALREADY_AT_TARGET)
def node_is_not_at_target(candidate: Candidate) -> Finding | None:
    """The node does not run the target version already, unless another rollout is changing it right now."""
    if candidate.current != candidate.target or _is_being_upgraded_for_others(candidate):
        return None
    return Finding(reason=Reason.ALREADY_AT_TARGET, detail=f"{_named(candidate)} runs {candidate.target} already")


@check_one(Reason.UNSUPPORTED_SOURCE)
def source_is_wanted(candidate: Candidate) -> Finding | None:
    """The node's version matches ``spec.fromVersions``, a list of versions or version prefixes."""
    wanted, runs = candidate.spec.from_versions, str(candidate.current)
    if not wanted or any(runs == start or runs.startswith((f"{start}.", f"{start}+", f"{start}-")) for start in wanted):
        return None
    because = f"{_named(candidate)} runs {runs}, which is none of spec.fromVersions ({', '.join(wanted)})"
    return Finding(reason=Reason.UNSUPPORTED_SOURCE, detail=because)


@check_one(Reason.DOWNGRADE_NOT_ALLOWED)
def downgrade_is_allowed(candidate: Candidate) -> Finding | None:
    """The target is not older than the current version, unless ``spec.allowDowngrade`` is set."""
    if candidate.target >= candidate.current or candidate.spec.allow_downgrade:
        return None
    because = f"{_named(candidate)} runs {candidate.current}, which is newer than {candidate.target}"
    return Finding(reason=Reason.DOWNGRADE_NOT_ALLOWED, detail=because)


@check_one(Reason.VERSION_SKEW, follows=(history.THREE_MINORS_BEHIND,))
def skew_is_supported(candidate: Candidate) -> Finding | None:
    """The API server supports the target, unless the upgrade brings a node that is too old closer to it."""
    if candidate.spec.skew_policy is SkewPolicy.WARN:
        return None
    target, server = candidate.target, candidate.server
    if is_newer_than_server(target, server):
        return Finding(reason=Reason.VERSION_SKEW, detail=f"{target} is newer than the API server {server}")
    if is_too_old_for_server(target, server) and target < candidate.current:
        allowed = supported_minors_behind(target)
        because = f"{target} is more than {allowed} minors older than the API server {server}"
        return Finding(reason=Reason.VERSION_SKEW, detail=because)
    return None


@check_one(Reason.UNSUPPORTED_NODE)
def kubelet_can_be_replaced(candidate: Candidate) -> Finding | None:
    """The node runs Linux, and its kubelet is a program of its own."""
    system, suffix = candidate.node.platform.partition("-")[0], candidate.current.suffix
    if system != "linux":
        because = f"{_named(candidate)} runs {system or 'an unknown operating system'}, not linux"
        return Finding(reason=Reason.UNSUPPORTED_NODE, detail=because)
    if any(suffix.startswith(f"+{distribution}") for distribution in EMBEDDED):
        because = f"{_named(candidate)} runs {candidate.current}, whose kubelet is part of its distribution"
        return Finding(reason=Reason.UNSUPPORTED_NODE, detail=because)
    return None


@check_one(Reason.UNSUPPORTED_RUNTIME)
def runtime_is_supported(candidate: Candidate) -> Finding | None:
    """The hashes stored by the node's runtime can be rewritten."""
    if is_supported(candidate.node.runtime_name):
        return None
    detail = f"{_named(candidate)} runs {candidate.node.runtime or 'an unknown runtime'}"
    return Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


@check_one(
    Reason.READINESS_GUARD_UNAVAILABLE,
    follows=(
        history.ADMISSION_POLICIES,
        history.PROBES_KEPT,
    ),
)
def required_guard_is_possible(candidate: Candidate) -> Finding | None:
    """Where the readiness guard is required, it is available."""
    verify = candidate.spec.verify
    if verify.readiness_guard is not GuardPolicy.REQUIRE or not guard.is_wanted(verify, candidate.target):
        return None
    if (problem := guard.obstacle(candidate.server, candidate.guard)) is None:
        return None
    detail = f"{_named(candidate)} cannot be guarded: {problem}"
    return Finding(reason=Reason.READINESS_GUARD_UNAVAILABLE, detail=detail)


@check_one(Reason.ARTIFACT_UNAVAILABLE)
def artifact_has_platform(candidate: Candidate) -> Finding | None:
    """There is a kubelet binary for the node's platform."""
    if serves(candidate.spec.artifact, candidate.node.platform):
        return None
    because = f"spec.artifact has no {candidate.node.platform}, which is the platform of {_named(candidate)}"
    return Finding(reason=Reason.ARTIFACT_UNAVAILABLE, detail=because)


@check_one(Reason.OVERLAP_CONFLICT)
def node_is_free(candidate: Candidate) -> Finding | None:
    """No other rollout holds the node."""
    task = _task_of_others(candidate)
    if task is None or is_claimable(task, candidate.active_upgrades):
        return None
    detail = f"{_named(candidate)} is held by NodeUpgrade {task.spec.upgrade_ref.name}"
    return Finding(reason=Reason.OVERLAP_CONFLICT, detail=detail)


@check_one(Reason.CORDON_LEFT_BEHIND, Reason.CORDONED_BY_OTHERS)
def node_is_not_cordoned_by_others(candidate: Candidate) -> Finding | None:
    """The node is not cordoned by someone else, unless ``spec.nodes.cordoned`` includes such nodes."""
    node = candidate.node
    foreign = node.unschedulable and node.cordoned_by != candidate.upgrade.uid
    if not foreign or candidate.spec.nodes.cordoned is CordonedPolicy.INCLUDE:
        return None
    if is_orphaned(node, candidate.active_upgrades):
        because = f"{_named(candidate)} is still cordoned by a NodeUpgrade that is gone or over"
        return Finding(reason=Reason.CORDON_LEFT_BEHIND, detail=because)
    because = f"{_named(candidate)} is cordoned, and not by this NodeUpgrade"
    return Finding(reason=Reason.CORDONED_BY_OTHERS, detail=because)


@check_one(Reason.NODE_NOT_READY)
def node_is_ready(candidate: Candidate) -> Finding | None:
    """The node is Ready; if not, it is skipped or waited for, as ``spec.nodes.notReady`` says.

    Even if it is to be skipped, the rollout waits for ``PATIENCE`` first: many nodes are not Ready for a moment, and a
    rollout that skipped them at once would end without them and report success.
    """
    node, because = candidate.node, f"{_named(candidate)} is not Ready"
    if node.ready:
        return None
    if candidate.spec.nodes.not_ready is not NotReadyPolicy.SKIP:
        return Finding(reason=Reason.NODE_NOT_READY, detail=because)
    if node.ready_changed is not None and candidate.now < (until := node.ready_changed + PATIENCE):
        return Finding(reason=Reason.NODE_NOT_READY, detail=f"{because} and is waited for until {timestamp(until)}")
    return Finding(reason=Reason.NODE_NOT_READY, detail=because, severity=Severity.SKIP)


@check_one(Reason.WRITE_REFUSED)
def writes_are_accepted(candidate: Candidate) -> Finding | None:
    """The API server accepts the writes that begin the upgrade; if not, they are retried while other nodes continue."""
    name, node, task = candidate.node.name, candidate.node, candidate.task
    done = {  # even if the response to the write was lost
        Claim.__name__: task is not None and task.spec.upgrade_ref.uid == candidate.upgrade.uid,
        Cordon.__name__: node.unschedulable and node.cordoned_by == candidate.upgrade.uid,
    }
    due = (action for action in _BEGINNING if not done.get(action))
    known = (setback for action in due if (setback := candidate.setbacks.get((name, action))) is not None)
    setback = next((each for each in known if candidate.now < each.again), None)
    return None if setback is None else setback.finding(name)


@check_one(Reason.NODE_AFFINITY_NOT_MET)
def placements_are_met(candidate: Candidate) -> Finding | None:
    """The node meets node selector and required node affinity of all its pods; a starting kubelet kills other pods."""
    for pod in _active_pods(candidate):
        if problem := unmet_placement(pod, candidate.node):
            return Finding(reason=Reason.NODE_AFFINITY_NOT_MET, detail=f"pod {pod} on {_named(candidate)}: {problem}")
    return None


@check_one(Reason.TAINT_NOT_TOLERATED, follows=(history.TAINTS_CHECKED,))
def taints_are_tolerated(candidate: Candidate) -> Finding | None:
    """All pods tolerate the node's NoExecute taints; from 1.24 on, a starting kubelet kills those that do not."""
    if not any(map(history.TAINTS_CHECKED.applies_to, (candidate.current, candidate.target))):
        return None
    for pod in _active_pods(candidate):
        if taint := untolerated_taint(pod, candidate.node):
            because = f"pod {pod} on {_named(candidate)} does not tolerate the taint {taint.key}:{taint.effect}"
            return Finding(reason=Reason.TAINT_NOT_TOLERATED, detail=because)
    return None


BEFORE_PODS: tuple[Check[Candidate], ...] = (
    task_is_readable,
    node_version_is_known,
    node_is_not_at_target,
    source_is_wanted,
    downgrade_is_allowed,
    skew_is_supported,
    kubelet_can_be_replaced,
    runtime_is_supported,
    required_guard_is_possible,
    artifact_has_platform,
    node_is_free,
    node_is_not_cordoned_by_others,
    node_is_ready,
    writes_are_accepted,
)
WITH_PODS: tuple[Check[Candidate], ...] = (placements_are_met, taints_are_tolerated)


def _is_being_upgraded_for_others(candidate: Candidate) -> bool:
    task = _task_of_others(candidate)
    return task is not None and task.spec.action in {TaskAction.UPGRADE, TaskAction.ABORT}


def _task_of_others(candidate: Candidate) -> Task | None:
    """Return the task of this instance of the Node if it belongs to another rollout, else None."""
    task = candidate.task
    if task is None or task.spec.node_uid != candidate.node.uid or task.spec.upgrade_ref.uid == candidate.upgrade.uid:
        return None
    return task


def _active_pods(candidate: Candidate) -> list[Pod]:
    return [pod for pod in candidate.pods or () if not pod.finished and not pod.terminating]


def _named(candidate: Candidate) -> str:
    return f"node {candidate.node.name}"


@lru_cache(maxsize=256)
def _version(text: str) -> KubeletVersion:
    return KubeletVersion.parse(text)
