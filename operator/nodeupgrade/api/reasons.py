"""What reasons mean: why a node or a rollout is where it is, and what a person can do about it.

Both sides of the API speak of them: the control plane in conditions, events and counters, the node side in the
status of its NodeUpgradeTask. Every reason carries its meaning and a remedy, so that no message ends without saying
what to do.
"""

from dataclasses import dataclass

from nodeupgrade.api.runtimes import supported_runtimes
from nodeupgrade.api.vocabulary import Reason

__all__ = ["EXPLANATIONS", "Explanation", "Reason", "counted", "explain", "sentence"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a reason means and what a person can do about it, one sentence each."""

    meaning: str
    remedy: str


_NOTHING = "nothing to do"

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.INVALID_SPEC: Explanation(
        "the NodeUpgrade contradicts itself or lacks something", "correct the field named in the message"
    ),
    Reason.UNSUPPORTED_VERSION: Explanation(
        "the container hashes of this kubelet version are not known",
        "choose a version listed in the documentation, or upgrade nodeupgrade",
    ),
    Reason.NODE_NOT_FOUND: Explanation(
        "spec.nodes.names lists a node that does not exist", "correct the name, in a new NodeUpgrade"
    ),
    Reason.NO_MATCHING_NODES: Explanation(
        "no node matches spec.nodes", "correct the selector or label the nodes; matching is tried again"
    ),
    Reason.SPEC_CHANGE_REJECTED: Explanation(
        "a field of the spec was changed that may not change under a rollout; no further node is started",
        "restore the field, and create another NodeUpgrade for what is wanted now",
    ),
    Reason.WINDOW_NEVER_OPENS: Explanation(
        "no moment is inside a window and outside all blackouts", "correct spec.windows or spec.blackouts"
    ),
    Reason.DOWNGRADE_NOT_ALLOWED: Explanation(
        "the target is older than the node's kubelet",
        "create a NodeUpgrade with allowDowngrade: true if the downgrade is meant",
    ),
    Reason.VERSION_SKEW: Explanation(
        "the target is outside the versions the API server supports for kubelets",
        "upgrade the control plane first, choose a nearer version, or set skewPolicy: Warn",
    ),
    Reason.NODE_NOT_READY: Explanation(
        "the node is not Ready", "repair the node; it is tried again as soon as it is Ready"
    ),
    Reason.CORDONED_BY_OTHERS: Explanation(
        "somebody else cordoned the node",
        "uncordon it, or use nodes.cordoned: Include to upgrade it as it is",
    ),
    Reason.UNSUPPORTED_RUNTIME: Explanation(
        "the node's container runtime is not supported", f"exclude the node; {supported_runtimes()}"
    ),
    Reason.UNSUPPORTED_NODE: Explanation(
        "the node's kubelet is no program of its own under Linux, so it cannot be replaced",
        "exclude the node, and upgrade it with the tools of its operating system or distribution",
    ),
    Reason.ARTIFACT_UNAVAILABLE: Explanation(
        "the kubelet binary for this node's platform cannot be had",
        "add the platform to spec.artifact, or make the file reachable from the node",
    ),
    Reason.NODE_AFFINITY_NOT_MET: Explanation(
        "a running pod's node selector or required node affinity no longer matches the node, so any kubelet "
        "restart would kill the pod",
        "restore the node's labels, or delete the pod",
    ),
    Reason.TAINT_NOT_TOLERATED: Explanation(
        "a running pod does not tolerate a NoExecute taint of the node, so it is about to be evicted",
        "remove the taint, or wait until the pod is gone",
    ),
    Reason.OVERLAP_CONFLICT: Explanation(
        "another NodeUpgrade holds the node", "wait until the other one is finished, or delete it"
    ),
    Reason.OBJECT_UNREADABLE: Explanation(
        "the Node or its NodeUpgradeTask holds something that this version cannot read, so the node is left alone",
        "run the version of nodeupgrade that wrote it, or correct the field; delete the task only if no run goes on",
    ),
    Reason.DIGEST_MISMATCH: Explanation(
        "the kubelet binary does not have the promised SHA-256", "correct spec.artifact, or replace the file"
    ),
    Reason.WRONG_VERSION_REPORTED: Explanation(
        "the kubelet binary reports another version than spec.version",
        "point spec.artifact at a binary of spec.version",
    ),
    Reason.STORED_HASH_NOT_REPRODUCED: Explanation(
        "a running container carries a stored hash that cannot be recomputed from its pod",
        "recreate the pod named in the message",
    ),
    Reason.UNKNOWN_CONTAINER: Explanation(
        "a running container belongs to no pod of this node", "remove the container, or wait for its pod"
    ),
    Reason.STATIC_POD_NOT_EDITABLE: Explanation(
        "a static pod's manifest cannot be given a fixed UID safely",
        "set metadata.uid in the manifest yourself",
    ),
    Reason.KUBELET_FLAGS_REJECTED: Explanation(
        "the new kubelet does not know a flag in use",
        "remove the flag, or use kubelet.flagPolicy: Strip with kubelet.removeFlags",
    ),
    Reason.RESIZE_POLICY_RESTART: Explanation(
        "a container would be restarted by an in-place resize after the swap",
        "finish or revert the resize of the pod named in the message",
    ),
    Reason.POD_CGROUP_MOVES: Explanation(
        "the new kubelet would put a running pod into another cgroup",
        "keep the node's cgroup settings as they are",
    ),
    Reason.POD_IN_TRANSITION: Explanation(
        "a pod is starting or terminating", "wait; the node is looked at again three times, later on a retry is needed"
    ),
    Reason.UNSUPPORTED_SERVICE_MANAGER: Explanation(
        "the kubelet is not a systemd unit on this node", "exclude the node, or correct spec.kubelet.unit"
    ),
    Reason.INSUFFICIENT_SPACE: Explanation(
        "there is not enough disk space next to the kubelet binary", "free space on the node"
    ),
    Reason.AGENT_UNAVAILABLE: Explanation(
        "the agent pod cannot run on the node", "look at the agent pod in the operator's namespace"
    ),
    Reason.WRITE_REFUSED: Explanation(
        "the API server refuses, or does not answer, a write that a node needs; other nodes are not affected",
        "let the webhook, policy, quota or role that the message names allow it; it is tried again by itself",
    ),
    Reason.TASK_LOST: Explanation(
        "the NodeUpgradeTask of a node in flight was deleted; it is made again, and an agent finds out what happened",
        _NOTHING,
    ),
    Reason.CORDON_LEFT_BEHIND: Explanation(
        "a NodeUpgrade that is gone or over has left the node cordoned, and it is not known whether its run has ended",
        "see on the node that nothing of nodeupgrade is at work, then uncordon it",
    ),
    Reason.KUBELET_WOULD_NOT_START: Explanation(
        "the new kubelet would not start with the configuration, state or hierarchy that it would find on the node",
        "change what the message names, restart the kubelet, and retry",
    ),
    Reason.CONFIGURATION_DRIFT: Explanation(
        "the kubelet would not start as it runs: its configuration was changed after its start",
        "restart the kubelet at a time of your choice first, or set kubelet.configurationDrift: Accept if the change "
        "is meant for the new kubelet",
    ),
    Reason.POD_WOULD_NOT_BE_ADMITTED: Explanation(
        "a kubelet admits all pods anew when it starts, and would reject and so kill a running one",
        "change what the message names, or delete the pod",
    ),
    Reason.PROGRAM_NOT_REPLACEABLE: Explanation(
        "the kubelet's program cannot be replaced where it lies", "take the attribute away that the message names"
    ),
    Reason.RUNTIME_NOT_READY: Explanation(
        "a restart of the container runtime would endanger containers now",
        "wait until the node is less busy, or repair the pod named in the message",
    ),
    Reason.RUNTIME_CONFIGURATION_DRIFT: Explanation(
        "the container runtime would not come back from a restart as it runs now",
        "put back what the message names, or restart the runtime at a time of your choice first",
    ),
    Reason.POD_HAS_TWO_SHIMS: Explanation(
        "a container is looked after by another shim than its pod, so any restart of the runtime would kill the pod",
        "delete the pod named in the message",
    ),
    Reason.UNIT_COMMAND_UNKNOWN: Explanation(
        "the unit of the kubelet or of the runtime runs a command that may change what the upgrade depends on",
        "take the line named in the message out of the unit",
    ),
    Reason.INTERNAL_ERROR: Explanation(
        "nodeupgrade met an error of its own", "report it together with the log of the agent or the operator"
    ),
    Reason.HASHES_WOULD_CHANGE: Explanation(
        "stored hashes would have to be rewritten, which hash.mode: AssertUnchanged forbids",
        "choose a version that hashes as the node's does, or set hash.mode: Rewrite",
    ),
    Reason.READINESS_GUARD_UNAVAILABLE: Explanation(
        "pods cannot be kept Ready until the new kubelet has probed them",
        "install the readiness guard (API servers from 1.30 on), or set verify.readinessGuard: Auto to go on without",
    ),
    Reason.KUBELET_DEFECT: Explanation(
        "the target has a defect that would harm a pod of the node", "choose a later patch release"
    ),
    Reason.ENDPOINTS_WOULD_BE_LOST: Explanation(
        "a kubelet before 1.35 reports pods unready until it has probed them, and Services drop them meanwhile",
        "install the readiness guard (API servers from 1.30 on), or run replicas on other nodes too",
    ),
    Reason.SERVICES_NOT_READ: Explanation(
        "the node side could not read who answers for the Services of the node's pods",
        "let its service account list services and endpointslices",
    ),
    Reason.PROBE_FAILS: Explanation(
        "readiness probes fail before anything is done, so those pods are expected to be unready afterwards too",
        "look at the pods named in the message",
    ),
    Reason.STARTUP_PROBE_RUNS_AGAIN: Explanation(
        "a kubelet before 1.35 runs startup probes again, and kills a container whose probe keeps failing",
        "see to it that the probes named in the message succeed as long as their containers run, or delete the pods",
    ),
    Reason.EXEC_PROBE_TIMED: Explanation(
        "kubelets from 1.20 on hold exec probes to their timeout",
        "make sure that the probes named in the message are quick enough, or raise their timeoutSeconds",
    ),
    Reason.READINESS_GUARD_OFF: Explanation("spec.verify.readinessGuard is Off", _NOTHING),
    Reason.READINESS_GUARD_NOT_NEEDED: Explanation("the new kubelet keeps what probes have found", _NOTHING),
    Reason.ALREADY_AT_TARGET: Explanation("the node runs the target version already", _NOTHING),
    Reason.STILL_SKEWED: Explanation(
        "the target is nearer to the API server's version but still outside the supported skew",
        "upgrade the node again afterwards",
    ),
    Reason.UNSUPPORTED_SOURCE: Explanation(
        "the node runs a version that spec.fromVersions does not list",
        "use another NodeUpgrade for the node if it is to be upgraded",
    ),
    Reason.SUCCEEDED: Explanation("the new kubelet runs and no container was restarted", _NOTHING),
    Reason.ROLLED_BACK: Explanation(
        "the old kubelet runs again", "look at the task's status for the cause, remove it, then retry"
    ),
    Reason.CONTAINER_RESTARTED: Explanation(
        "at least one container was restarted", "look at the list of containers in the task's status"
    ),
    Reason.INVENTORY_CHANGED: Explanation(
        "containers came or went between planning and stopping the kubelet, so the plan no longer fits",
        "retry when the node is calmer; nothing was rewritten",
    ),
    Reason.UNIT_CHANGED: Explanation(
        "somebody changed the kubelet's unit while the node was upgraded",
        "look at the unit with `systemctl cat`, and find out what changes it",
    ),
    Reason.STEP_FAILED: Explanation(
        "a step did not take and what had been done was undone",
        "read the message and the journal on the node, fix the cause, and retry",
    ),
    Reason.KUBELET_DID_NOT_START: Explanation(
        "the new kubelet exited or never became healthy", "look at the kubelet's log on the node"
    ),
    Reason.VERIFICATION_FAILED: Explanation(
        "the node is not what it should be after the swap", "look at the message, the node and its pods"
    ),
    Reason.RUNTIME_DID_NOT_ANSWER: Explanation(
        "the container runtime did not answer in time", "look at the runtime's log on the node"
    ),
    Reason.RUNTIME_LOST_PODS: Explanation(
        "the container runtime does not show containers that still run, so no kubelet is started on it",
        "repair the runtime's configuration and restart it: the run goes on by itself; if it has forgotten them, "
        "restart the node: the run is rolled back and every pod begins anew",
    ),
    Reason.BUDGET_SPENT: Explanation(
        "the kubelet was down for longer than its budget, so everything was undone",
        "look at the slow step in the task's status, or raise verify.kubeletDownBudget",
    ),
    Reason.NODE_REBOOTED: Explanation(
        "the node rebooted in the middle", "look at the node; its containers were restarted by the reboot"
    ),
    Reason.EXECUTOR_UNAVAILABLE: Explanation(
        "systemd on the node cannot start the executor, which exchanges the kubelet",
        "allow programs below /var/lib/nodeupgrade to be executed (mount option noexec, SELinux), then retry",
    ),
    Reason.EARLIER_RUN: Explanation(
        "a run for another version was found on the node of which nobody had been told; the message says how it ended",
        "look at what it says; the node is looked at again by itself",
    ),
    Reason.EXECUTOR_LOST: Explanation(
        "the executor could not run any more, so the rescue script brought the old kubelet back",
        "find out what removed or damaged the bundle on the node, then create a new NodeUpgrade",
    ),
    Reason.ABORTED: Explanation("the run was aborted on request", _NOTHING),
    Reason.ROLLBACK_FAILED: Explanation(
        "the node could not be brought back to the old kubelet",
        "repair the node by hand, uncordon it, then delete its NodeUpgradeTask",
    ),
    Reason.PRECHECKED: Explanation("nothing on the node objects to its upgrade; it is untouched", _NOTHING),
    Reason.VALID: Explanation("the spec is valid", _NOTHING),
    Reason.PLAN_READY: Explanation("the nodes to upgrade are known", _NOTHING),
    Reason.PROGRESSING: Explanation("nodes are being upgraded or waited for", _NOTHING),
    Reason.PAUSED: Explanation("no further node is started", "set spec.action: Run to go on"),
    Reason.NODES_CLAIMED: Explanation("the selected nodes are being claimed and looked at", _NOTHING),
    Reason.HAZARDS_FOUND: Explanation(
        "the plan was made and at least one node would be refused",
        "look at status.failures, remove the causes, and retry; or set spec.action: Run to upgrade the others",
    ),
    Reason.QUEUED: Explanation("another NodeUpgrade holds the same nodes", "wait until it is finished, or delete it"),
    Reason.WAITING_FOR_WINDOW: Explanation("no node may be started outside spec.windows", _NOTHING),
    Reason.AWAITING_APPROVAL: Explanation(
        "the next wave begins when somebody approves it",
        "add its name to spec.approvedWaves or to the annotation nodeupgrade.dev/approve",
    ),
    Reason.SOAKING: Explanation("the rollout waits for the soak time of a wave to be over", _NOTHING),
    Reason.TOO_MANY_UNAVAILABLE: Explanation(
        "as many nodes as strategy.maxUnavailable allows are unavailable already, and not by this rollout",
        "repair or uncordon nodes, or raise strategy.maxUnavailable; the rollout goes on by itself",
    ),
    Reason.TIMED_OUT: Explanation(
        "the wave or the rollout took longer than spec.timeouts allows", "raise the timeout to go on"
    ),
    Reason.FAILURE_THRESHOLD_REACHED: Explanation(
        "as many nodes failed as failureThreshold allows, so no further node is started",
        "look at status.failures, remove the cause, then set the annotation nodeupgrade.dev/retry to a new token",
    ),
    Reason.ALL_NODES_UPGRADED: Explanation("every selected node runs the target version", _NOTHING),
    Reason.COMPLETED_WITH_SKIPS: Explanation("every selected node is upgraded or skipped", "see status.skips"),
    Reason.NODES_REFUSED: Explanation(
        "at least one node was refused and left untouched",
        "remove the cause, and retry for nodes refused in the step preflight; others are checked again by themselves",
    ),
    Reason.NODES_FAILED: Explanation("at least one node failed", "see status.failures"),
    Reason.FAILED: Explanation("the rollout ended without success", "see status.failures"),
    Reason.VERIFIED: Explanation("no container was restarted", _NOTHING),
    Reason.NOT_YET_VERIFIED: Explanation("no node has been verified yet", _NOTHING),
    Reason.RESTARTS_DETECTED: Explanation(
        "containers were restarted", "see status.containers and the tasks' restartedList"
    ),
    Reason.DELETING: Explanation("nodes in flight are finished before the object goes", "wait"),
    Reason.ADMITTED: Explanation("the node's upgrade begins", _NOTHING),
    Reason.CORDONED: Explanation("the node was cordoned for its upgrade", _NOTHING),
    Reason.UNCORDONED: Explanation("the node's cordon was restored to what it was", _NOTHING),
    Reason.GUARDED: Explanation("the node's pods stay Ready until its new kubelet has probed them", _NOTHING),
    Reason.GUARD_LIFTED: Explanation("the new kubelet reports pods as it finds them", _NOTHING),
    Reason.AGENT_STARTED: Explanation("the agent pod was created", _NOTHING),
    Reason.AGENT_REPLACED: Explanation("a lost agent pod was replaced; the run goes on", _NOTHING),
    Reason.CLAIMED: Explanation("the node belongs to the rollout and waits for its turn", _NOTHING),
    Reason.REOPENED: Explanation("the node is to be tried once more", _NOTHING),
    Reason.RETRY_IGNORED: Explanation("an aborted rollout stays ended", "create a new NodeUpgrade"),
    Reason.WAVE_STARTED: Explanation("the first node of a wave is started", _NOTHING),
    Reason.WAVE_COMPLETED: Explanation("every node of a wave is finished, skipped or refused", _NOTHING),
    Reason.UNKNOWN_WAVE: Explanation("an approval names a wave that does not exist", "correct the name"),
}


def explain(reason: Reason) -> Explanation:
    """Return the meaning and remedy of a reason."""
    return EXPLANATIONS[reason]


def sentence(reason: Reason, because: str) -> str:
    """Join a concrete cause and the reason's remedy into one message.

    Args:
        reason: The reason the message belongs to.
        because: What was seen, without a full stop, e.g. ``node a is NotReady since 10:00``.
    """
    remedy = explain(reason).remedy
    return f"{because}." if remedy == _NOTHING else f"{because}; {remedy}."


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
