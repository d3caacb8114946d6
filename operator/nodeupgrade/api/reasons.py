"""The reasons for the state of a node or a rollout, each with its meaning and remedy.

Both sides of the API report them. Every reason has a remedy, so that every message says what to do. Everything about a
reason is declared here. A particular finding on a node or in a rollout is a ``domain.hazards.Finding``.
"""

from enum import StrEnum
from typing import Self

from nodeupgrade.api.runtimes import supported_runtimes

__all__ = ["NOTHING_TO_DO", "Reason", "Severity", "known_reason"]

NOTHING_TO_DO = "nothing to do"


class Severity(StrEnum):
    """The consequence of a finding."""

    REFUSE = "refuse"
    """The node must not be touched."""
    SKIP = "skip"
    """The node need not be touched, or is skipped as the spec says."""
    WARN = "warn"
    """People should know about it before and after a run; it prevents nothing."""


class Reason(StrEnum):
    """Why something was refused, skipped or held, or how it ended."""

    _value_: str
    meaning: str  # what the reason means, in one sentence
    remedy: str  # what a person can do about it, in one sentence
    severity: Severity  # the usual severity; a particular finding may have another one

    def __new__(
        cls, value: str, meaning: str = "", remedy: str = NOTHING_TO_DO, severity: Severity = Severity.REFUSE
    ) -> Self:
        """Make a member from its value, meaning, remedy and severity."""
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning, reason.remedy, reason.severity = value, meaning, remedy, severity
        return reason

    # fmt: off

    # The object cannot be reconciled.
    INVALID_SPEC = ("InvalidSpec", "the NodeUpgrade contradicts itself or lacks something",
        "correct the field named in the message")
    UNSUPPORTED_VERSION = ("UnsupportedVersion", "the container hashes of this kubelet version are not known",
        "choose a version listed in the documentation, or upgrade nodeupgrade")
    NODE_NOT_FOUND = ("NodeNotFound", "spec.nodes.names lists a node that does not exist",
        "correct the name, in a new NodeUpgrade")
    NODE_LOST = ("NodeLost",
        "the Node of a run in progress was deleted and did not come back, so what became of the run is not known",
        "look at the machine if it still exists, then retry")
    NODE_OVERDUE = ("NodeOverdue",
        "the run on a node is not over minutes after its deadline, and nothing is heard that would end it",
        "look at the machine, its kubelet and the agent pod; if the machine is gone for good, delete its Node")
    NOT_IN_PLAN = ("NotInPlan",
        "the node joined or was labelled after the plan was made, or its NodeUpgradeTask was deleted before its turn",
        "upgrade it with another NodeUpgrade, or use spec.nodes.membership: Continuous", Severity.SKIP)
    NO_MATCHING_NODES = ("NoMatchingNodes", "no node matches spec.nodes",
        "correct the selector or label the nodes; matching is tried again")
    SPEC_CHANGE_REJECTED = ("SpecChangeRejected",
        "a field of the spec was changed that may not change under a rollout; no further node is started",
        "restore the field, and create another NodeUpgrade for what is wanted now")
    NOT_ALLOWED = ("NotAllowed",
        "the operator's own configuration does not allow this artifact, pull secret, unit or file",
        "use what is allowed, or have whoever installs the operator allow it (manifests/allowed.yaml)")
    WINDOW_NEVER_OPENS = ("WindowNeverOpens", "no moment is inside a window and outside all blackouts",
        "correct spec.windows or spec.blackouts")

    # The node is refused before anything is touched, based on the API server alone.
    DOWNGRADE_NOT_ALLOWED = ("DowngradeNotAllowed", "the target is older than the node's kubelet",
        "create a NodeUpgrade with allowDowngrade: true if the downgrade is meant")
    VERSION_SKEW = ("VersionSkew", "the target is outside the versions the API server supports for kubelets",
        "upgrade the control plane first, choose a nearer version, or set skewPolicy: Warn")
    NODE_NOT_READY = ("NodeNotReady", "the node is not Ready",
        "repair the node; it is tried again as soon as it is Ready")
    CORDONED_BY_OTHERS = ("CordonedByOthers", "somebody else cordoned the node",
        "uncordon it, or use nodes.cordoned: Include to upgrade it as it is", Severity.SKIP)
    UNSUPPORTED_RUNTIME = ("UnsupportedRuntime", "the node's container runtime is not supported",
        f"exclude the node; {supported_runtimes()}")
    RUNTIME_UNPROVEN = ("RuntimeUnproven",
        "the node's container runtime is supported, but its version was never tried on real nodes",
        "exclude the node; or accept the check for one node that you can lose, and tell us how it went")
    UNSUPPORTED_NODE = ("UnsupportedNode",
        "the node's kubelet is not a separate Linux program, so it cannot be replaced",
        "exclude the node, and upgrade it with the tools of its operating system or distribution")
    ARTIFACT_UNAVAILABLE = ("ArtifactUnavailable", "the kubelet binary for this node's platform cannot be had",
        "make the file reachable from the node, or create another NodeUpgrade whose spec.artifact has the platform")
    NODE_AFFINITY_NOT_MET = ("NodeAffinityNotMet",
        "a running pod's node selector or affinity no longer matches the node: any kubelet restart would kill it",
        "restore the node's labels, or delete the pod")
    TAINT_NOT_TOLERATED = ("TaintNotTolerated",
        "a running pod does not tolerate a NoExecute taint of the node, so it is about to be evicted",
        "remove the taint, or wait until the pod is gone")
    OVERLAP_CONFLICT = ("OverlapConflict", "another NodeUpgrade holds the node",
        "wait until the other one is finished, or delete it")
    OBJECT_UNREADABLE = ("ObjectUnreadable",
        "the Node or its NodeUpgradeTask holds something that this version cannot read, so the node is left alone",
        "run the version of nodeupgrade that wrote it, or correct the field; delete the task only if no run goes on")

    # The node is refused before anything is touched, based on the node itself.
    DIGEST_MISMATCH = ("DigestMismatch", "the kubelet binary does not have the promised SHA-256",
        "replace the file, or create another NodeUpgrade with its digest")
    WRONG_VERSION_REPORTED = ("WrongVersionReported", "the kubelet binary reports another version than spec.version",
        "create another NodeUpgrade whose spec.artifact is of spec.version")
    STORED_HASH_NOT_REPRODUCED = ("StoredHashNotReproduced",
        "a running container carries a stored hash that cannot be recomputed from its pod",
        "recreate the pod named in the message")
    HASHES_NOT_YET_COMPARED = ("HashesNotYetCompared", "the running kubelet has perhaps not compared every hash yet",
        "wait; the node is looked at again three times, later on a retry is needed")
    UNKNOWN_CONTAINER = ("UnknownContainer", "a running container belongs to no pod of this node",
        "remove the container, or wait for its pod")
    STATIC_POD_NOT_EDITABLE = ("StaticPodNotEditable", "a static pod's manifest cannot be given a fixed UID safely",
        "set metadata.uid in the manifest yourself")
    KUBELET_FLAGS_REJECTED = ("KubeletFlagsRejected", "the new kubelet does not know a flag in use",
        "remove the flag, or use kubelet.flagPolicy: Strip with kubelet.removeFlags")
    RESIZE_POLICY_RESTART = ("ResizePolicyRestart",
        "a container would be restarted by an in-place resize after the swap",
        "finish or revert the resize of the pod named in the message")
    POD_CGROUP_MOVES = ("PodCgroupMoves", "the new kubelet would put a running pod into another cgroup",
        "keep the node's cgroup settings as they are")
    POD_IN_TRANSITION = ("PodInTransition", "a pod is starting or terminating",
        "wait; the node is looked at again three times, later on a retry is needed")
    UNSUPPORTED_SERVICE_MANAGER = ("UnsupportedServiceManager",
        "the kubelet is not a systemd unit on this node, or systemd is too old",
        "exclude the node, or correct spec.kubelet.unit")
    INSUFFICIENT_SPACE = ("InsufficientSpace", "too little disk space is left for a run", "free space on the node")
    AGENT_UNAVAILABLE = ("AgentUnavailable", "the agent pod cannot run on the node",
        "look at the agent pod in the operator's namespace")
    AGENT_NOT_STARTED = ("AgentNotStarted", "no agent could be started on the node", "remove the cause, and retry")
    WRITE_REFUSED = ("WriteRefused",
        "the API server refuses, or does not answer, a write that a node needs; other nodes are not affected",
        "let the webhook, policy, quota or role that the message names allow it; it is tried again by itself")
    HOOK_FAILED = ("HookFailed", "a hook of the node failed or took too long", "look at its Job; retry a refused node")
    TASK_LOST = ("TaskLost",
        "the NodeUpgradeTask of a node in flight was deleted; it is made again, and an agent finds out what happened")
    CORDON_LEFT_BEHIND = ("CordonLeftBehind",
        "a NodeUpgrade that is gone or over has left the node cordoned, and it is not known whether its run has ended",
        "see on the node that nothing of nodeupgrade is at work, then uncordon it")
    KUBELET_WOULD_NOT_START = ("KubeletWouldNotStart",
        "the new kubelet would not start with the configuration, state or hierarchy that it would find on the node",
        "change what the message names, restart the kubelet, and retry")
    CONFIGURATION_DRIFT = ("ConfigurationDrift",
        "the kubelet would not start as it runs: its configuration was changed after its start",
        ("restart the kubelet at a time of your choice first, or set kubelet.configurationDrift: Accept "
         "if the change is meant for the new kubelet"))
    POD_WOULD_NOT_BE_ADMITTED = ("PodWouldNotBeAdmitted",
        "a kubelet admits all pods anew when it starts, and would reject and so kill a running one",
        "change what the message names, or delete the pod")
    PROGRAM_NOT_REPLACEABLE = ("ProgramNotReplaceable", "the kubelet's program cannot be replaced where it lies",
        "take the attribute away that the message names")
    RUNTIME_NOT_READY = ("RuntimeNotReady", "a restart of the container runtime would endanger containers now",
        "wait until the node is less busy, or repair the pod named in the message")
    RUNTIME_CONFIGURATION_DRIFT = ("RuntimeConfigurationDrift",
        "the container runtime would not come back from a restart as it runs now",
        "put back what the message names, or restart the runtime at a time of your choice first")
    POD_HAS_TWO_MONITORS = ("PodHasTwoShims",
        "a container is looked after by another shim than its pod, so any restart of the runtime would kill the pod",
        "delete the pod named in the message")
    UNIT_COMMAND_UNKNOWN = ("UnitCommandUnknown",
        "the unit of the kubelet or of the runtime runs a command that may change what the upgrade depends on",
        "take the line named in the message out of the unit")
    INTERNAL_ERROR = ("InternalError", "nodeupgrade met an error of its own",
        "report it together with the log of the agent or the operator")
    FILE_UNAVAILABLE = ("FileUnavailable", "the content of a file of spec.files cannot be had",
        "create the ConfigMap or Secret in the operator's namespace, or correct spec.files, and retry")
    FILE_NOT_REPLACEABLE = ("FileNotReplaceable",
        "a file of spec.files cannot be exchanged on the node and put back exactly as it was",
        "do what the message says on the node, or leave the file out of spec.files, in a new NodeUpgrade")
    SETTING_NOT_CHANGEABLE = ("SettingNotChangeable",
        "spec.files would change a setting that running pods or the run itself depend on",
        "leave the setting that the message names as it is in spec.files, in a new NodeUpgrade")
    HASHES_WOULD_CHANGE = ("HashesWouldChange",
        "stored hashes would have to be rewritten, which hash.mode: AssertUnchanged forbids",
        "choose a version that hashes as the node's does, or set hash.mode: Rewrite")
    READINESS_GUARD_UNAVAILABLE = ("ReadinessGuardUnavailable",
        "pods cannot be kept Ready until the new kubelet has probed them",
        "install the readiness guard (API servers from 1.30 on), or set verify.readinessGuard: Auto to go on without")
    SHIELD_UNAVAILABLE = ("ShieldUnavailable",
        "the runtime's socket cannot be shielded, so a kubelet that wants to end a container is noticed, not prevented",
        "remove what the message names, or go on without: verify.shield: Auto, or Off for no warning either")
    RUNTIME_SOCKET_MOUNTED = ("RuntimeSocketMounted",
        "a container has mounted the runtime's socket as a file, which the runtime's restart replaces",
        "mount the directory of the socket instead, or restart the pods that the message names after the upgrade")
    KUBELET_DEFECT = ("KubeletDefect", "the target has a defect that would harm a pod of the node",
        "choose a later patch release")
    VOLUME_NOT_KEPT = ("VolumeNotKept",
        "the new kubelet would not find, or not handle, a volume that a pod of the node uses",
        "delete the pod that uses it, so that it is unmounted, or drain and exclude the node")
    STOPS_WITH_KUBELET = ("StopsWithKubelet", "stopping the kubelet would end something else on the node",
        "loosen what the message names, or stop it at a time of your choice first")
    NODE_UNDER_PRESSURE = ("NodeUnderPressure", "the node is short of memory, disk space or process IDs",
        "free what the message names; the node is tried again as soon as it has enough")
    NODE_IN_OTHER_HANDS = ("NodeInOtherHands",
        "another program or controller is changing the node, or is about to restart or remove it",
        "wait until it is done, or pause it")
    KUBELET_FROM_PACKAGE = ("KubeletFromPackage",
        "the kubelet belongs to a package, whose next upgrade or reinstallation would undo the node's upgrade",
        "hold the package (kubelet.package: Hold, apt-mark hold, dnf versionlock add), or set kubelet.package: Ignore")
    CONTROL_PLANE_CHANGING = ("ControlPlaneChanging", "the API servers do not all have one version",
        "finish the upgrade of the control plane first; the rollout goes on by itself")

    # Warnings about the start of a node's kubelet.
    SETTING_IGNORED = ("SettingIgnored", "the new kubelet ignores a setting that it does not know",
        "correct or remove the field that the message names", Severity.WARN)
    DEFAULT_CHANGES = ("DefaultChanges", "what is not set explicitly means something else to the new kubelet",
        "set explicitly what the message names", Severity.WARN)
    CLOCK_SKEW = ("ClockSkew", "the node's clock is not that of the API server",
        "set the node's clock, for example with chrony or systemd-timesyncd", Severity.WARN)
    EVICTION_THRESHOLD_MET = ("EvictionThresholdMet",
        "a filesystem has less left than the kubelet's eviction thresholds, so it would evict pods",
        "free space or inodes on the filesystem that the message names, or correct evictionHard")

    # Warnings about a node's pods and their clients, some of which can prevent a run.
    ENDPOINTS_WOULD_BE_LOST = ("EndpointsWouldBeLost",
        "a kubelet before 1.35 reports pods unready until it has probed them, and Services drop them meanwhile",
        "install the readiness guard (API servers from 1.30 on), or run replicas on other nodes too")
    SERVICES_NOT_READ = ("ServicesNotRead",
        "the node side could not read who answers for the Services of the node's pods, or what else depends on them",
        "let its service account list what the message names, as manifests/agent-rbac.yaml does", Severity.WARN)
    PROBE_FAILS = ("ProbeFails",
        "readiness probes fail before anything is done, so those pods are expected to be unready afterwards too",
        "look at the pods named in the message", Severity.WARN)
    STARTUP_PROBE_RUNS_AGAIN = ("StartupProbeRunsAgain",
        "a kubelet before 1.35 runs startup probes again, and kills a container whose probe keeps failing",
        "see to it that the probes named in the message succeed as long as their containers run, or delete the pods")
    IPTABLES_CHAINS_GONE = ("IptablesChainsGone", "kubelets from 1.27 on do not create the chains that mark packets",
        "change what refers to the chain before the node is restarted", Severity.WARN)
    CORDON_REMOVES_TRAFFIC = ("CordonRemovesTraffic",
        "control planes before 1.19 take a cordoned node out of the load balancers of Services",
        "see to it that other nodes can take the traffic of those load balancers meanwhile", Severity.WARN)
    EXEC_PROBE_TIMED = ("ExecProbeTimed", "kubelets from 1.20 on hold exec probes to their timeout",
        "make sure that the probes named in the message are quick enough, or raise their timeoutSeconds", Severity.WARN)

    CONTAINER_COULD_NOT_RESTART = ("ContainerCouldNotRestart",
        "a container runs on, but the new kubelet could not start it again once it ends",
        "change what the message names before the container has to be started again", Severity.WARN)
    POD_ENDS_BY_ITSELF = ("PodEndsByItself",
        "a pod or container is expected to end or restart during the run, which the run cannot tell from a loss",
        "wait until that is over, or repair the container", Severity.WARN)
    STATIC_POD_EDIT_PENDING = ("StaticPodEditPending",
        "a static pod's manifest was edited, but still names the UID that keeps the running pod as it is",
        "remove metadata.uid from the manifest, which replaces the pod, or take the edit back", Severity.WARN)
    STATIC_PODS_RECREATED = ("StaticPodsRecreated",
        "the new kubelet replaces static pods, and what they serve is interrupted, be it the API server or etcd",
        "make sure that it can be interrupted, or use kubelet.staticPods: Pin", Severity.WARN)
    LOSS_NOT_HEALED = ("LossNotHealed",
        "a pod that did not survive the run would be gone for good, since no controller replaces it",
        "back up what it holds, or let a controller own it", Severity.WARN)
    KUBEADM_UPGRADES_FIRST = ("KubeadmUpgradesFirst", "kubeadm made the node's control plane, which it upgrades first",
        "if `kubeadm upgrade` is due on this node, run it first, and then restart the kubelet", Severity.WARN)
    RUNTIME_CONNECTION_LOST = ("RuntimeConnectionLost",
        "a container is connected to the runtime, and may exit when the runtime's restart breaks the connection",
        "see to it that the program connects again instead of exiting", Severity.WARN)
    DEBUGGING_IS_INTERRUPTED = ("DebuggingIsInterrupted",
        "an ephemeral container runs; whoever is attached to it is disconnected when the kubelet stops",
        "end the session first, or attach again afterwards", Severity.WARN)

    # The node is skipped on purpose.
    READINESS_GUARD_OFF = "ReadinessGuardOff", "spec.verify.readinessGuard is Off"
    READINESS_GUARD_NOT_NEEDED = "ReadinessGuardNotNeeded", "the new kubelet keeps what probes have found"
    ALREADY_AT_TARGET = "AlreadyAtTarget", "the node runs the target version already", NOTHING_TO_DO, Severity.SKIP
    STILL_SKEWED = ("StillSkewed",
        "the target is nearer to the API server's version but still outside the supported skew",
        "upgrade the node again afterwards", Severity.WARN)
    UNSUPPORTED_SOURCE = ("UnsupportedSource", "the node runs a version that spec.fromVersions does not list",
        "use another NodeUpgrade for the node if it is to be upgraded", Severity.SKIP)

    NODE_SKIPPED = ("SkippedByAnnotation", "the node's annotation nodeupgrade.dev/skip leaves it out",
        "remove the annotation from the node to have it upgraded", Severity.SKIP)
    NODE_HELD = ("HeldByAnnotation", "the node's annotation nodeupgrade.dev/hold has the rollout wait with it",
        "remove the annotation from the node to go on, or replace it by nodeupgrade.dev/skip to go on without the node")
    HELD_BY_POD = ("HeldByPod", "the annotation nodeupgrade.dev/hold of a pod has its node waited with, for a time",
        "remove it from the pod, or annotate the node with nodeupgrade.dev/skip, or set spec.timeouts.podHold to 0s")

    # How a run ended.
    SUCCEEDED = "Succeeded", "the new kubelet runs and no container was restarted"
    ROLLED_BACK = ("RolledBack", "the old kubelet runs again",
        "look at the task's status for the cause, remove it, then retry")
    CONTAINER_RESTARTED = ("ContainerRestarted", "at least one container was restarted",
        "look at the list of containers in the task's status")
    SHIELD_HELD = ("ShieldHeld",
        "a kubelet wanted to end something that ran before the upgrade, and the shield refused",
        "look at the caller and the kubelet's log lines in the message")
    INVENTORY_CHANGED = ("InventoryChanged",
        "containers came or went between planning and stopping the kubelet, so the plan no longer fits",
        "retry when the node is calmer; nothing was rewritten")
    UNIT_CHANGED = ("UnitChanged", "somebody changed the kubelet's unit or configuration while the node was upgraded",
        "look at what the message names (a unit with `systemctl cat`), and find out what changes it")
    STEP_FAILED = ("StepFailed", "a step did not take and what had been done was undone",
        "read the message and the journal on the node, fix the cause, and retry")
    KUBELET_DID_NOT_START = ("KubeletDidNotStart", "the new kubelet exited or never became healthy",
        "look at the kubelet's log on the node")
    VERIFICATION_FAILED = ("VerificationFailed", "the node is not what it should be after the swap",
        "look at the message, the node and its pods")
    RUNTIME_DID_NOT_ANSWER = ("RuntimeDidNotAnswer", "the container runtime did not answer in time",
        "look at the runtime's log on the node")
    RUNTIME_LOST_PODS = ("RuntimeLostPods",
        "the container runtime does not show containers that still run, so no kubelet is started on it",
        ("repair the runtime's configuration and restart it: the run goes on by itself; if it has "
         "forgotten them, restart the node: the run is rolled back and every pod begins anew"))
    BUDGET_SPENT = ("BudgetSpent", "the kubelet was down for longer than its budget, so everything was undone",
        "look at the slow step in the task's status, or raise verify.kubeletDownBudget")
    NODE_REBOOTED = ("NodeRebooted", "the node rebooted in the middle",
        "look at the node; its containers were restarted by the reboot")
    EXECUTOR_UNAVAILABLE = ("ExecutorUnavailable",
        "systemd on the node cannot start the executor, which exchanges the kubelet",
        "allow programs to be executed in the directory that the message names (noexec, SELinux), then retry")
    RUN_NOT_KEPT = ("RunNotKept",
        "a node that loses power during its run could neither finish nor undo it, since a boot forgets the run",
        "keep the directory that the message names on a disk, or exclude the node")
    EARLIER_RUN = ("EarlierRun",
        "a run for another version was found on the node of which nobody had been told; the message says how it ended",
        "look at what it says; the node is looked at again by itself")
    EXECUTOR_LOST = ("ExecutorLost",
        "the executor could not run any more, so the rescue script brought the old kubelet back",
        "find out what removed or damaged the bundle on the node, then create a new NodeUpgrade")
    ABORTED = "Aborted", "the run was aborted on request"
    ROLLBACK_FAILED = ("RollbackFailed", "the node could not be brought back to the old kubelet",
        "repair the node by hand, uncordon it, delete its NodeUpgradeTask, then retry")
    PRECHECKED = "Prechecked", "nothing on the node objects to its upgrade; it is untouched"

    # How a rollout stands.
    VALID = "Valid", "the spec is valid"
    PLAN_READY = "PlanReady", "the nodes to upgrade are known"
    PROGRESSING = "Progressing", "nodes are being upgraded or waited for"
    PAUSED = "Paused", "no further node is started", "set spec.action: Run to go on"
    NODES_CLAIMED = "NodesClaimed", "the selected nodes are being claimed and looked at"
    HAZARDS_FOUND = ("HazardsFound", "the plan was made and at least one node would be refused",
        "look at status.failures, remove the causes, and retry; or set spec.action: Run to upgrade the others")
    QUEUED = "Queued", "another NodeUpgrade holds the same nodes", "wait until it is finished, or delete it"
    WAITING_FOR_WINDOW = "WaitingForWindow", "no node may be started outside spec.windows"
    AWAITING_APPROVAL = ("AwaitingApproval", "the next wave begins when somebody approves it",
        "add its name to spec.approvedWaves or to the annotation nodeupgrade.dev/approve")
    SOAKING = "Soaking", "the rollout waits for the soak time of a wave to be over"
    AWAITING_HEALTH = ("AwaitingHealth", "a health check does not hold yet, or not for the moment")
    HEALTH_CHECK_FAILED = ("HealthCheckFailed", "a health check fails, so no further node is started",
        "repair what the check is about; the rollout goes on by itself once the check has held for long enough")
    HEALTH_CHECK_BROKEN = ("HealthCheckBroken", "a health check cannot be evaluated, so no further node is started",
        "see to what the message names, or correct spec.healthChecks; the rollout then goes on by itself")
    HEALTH_CHECKS_HOLD = "HealthChecksHold", "every health check holds"
    TOO_MANY_UNAVAILABLE = ("TooManyUnavailable",
        "as many nodes as strategy.maxUnavailable allows are unavailable already, and not by this rollout",
        "repair or uncordon nodes, or raise strategy.maxUnavailable; the rollout goes on by itself")
    TIMED_OUT = ("TimedOut", "the wave or the rollout took longer than spec.timeouts allows", "raise it to go on")
    FAILURE_THRESHOLD_REACHED = ("FailureThresholdReached",
        "as many nodes failed as failureThreshold allows, so no further node is started",
        "look at status.failures, remove the cause, then set the annotation nodeupgrade.dev/retry to a new token")
    ALL_NODES_UPGRADED = "AllNodesUpgraded", "every selected node runs the target version"
    COMPLETED_WITH_SKIPS = "CompletedWithSkips", "every selected node is upgraded or skipped", "see status.skips"
    NODES_REFUSED = ("NodesRefused", "at least one node was refused and left untouched",
        "remove the cause, and retry for nodes refused in the step preflight; others are checked again by themselves")
    NODES_FAILED = "NodesFailed", "at least one node failed", "see status.failures"
    FAILED = "Failed", "the rollout ended without success", "see status.failures"
    VERIFIED = "Verified", "no container was restarted"
    NOT_YET_VERIFIED = "NotYetVerified", "no node has been verified yet"
    RESTARTS_DETECTED = ("RestartsDetected", "containers were restarted",
        "see status.containers and the tasks' restartedList")
    DELETING = "Deleting", "nodes in flight are finished before the object goes", "wait"

    # What happened, for events.
    ADMITTED = "Admitted", "the node's upgrade begins"
    CORDONED = "Cordoned", "the node was cordoned for its upgrade"
    UNCORDONED = "Uncordoned", "the node's cordon was restored to what it was"
    GUARDED = "Guarded", "the node's pods stay Ready until its new kubelet has probed them"
    GUARD_LIFTED = "GuardLifted", "the new kubelet reports pods as it finds them"
    AGENT_STARTED = "AgentStarted", "the agent pod was created"
    AGENT_REPLACED = "AgentReplaced", "a lost agent pod was replaced; the run goes on"
    CLAIMED = "Claimed", "the node belongs to the rollout and waits for its turn"
    REOPENED = "Reopened", "the node is to be tried once more"
    RETRIED = "Retried", "a retry was carried out, so earlier failures do not count any more"
    RETRY_IGNORED = "RetryIgnored", "an aborted rollout stays ended", "create a new NodeUpgrade"
    WAVE_STARTED = "WaveStarted", "the first node of a wave is started"
    WAVE_COMPLETED = "WaveCompleted", "every node of a wave is finished, skipped or refused"
    UNKNOWN_WAVE = "UnknownWave", "an approval names a wave that does not exist", "correct the name"
    # fmt: on


def known_reason(text: str | None) -> Reason | None:
    """Return a reason that was stored or reported; ``None`` if there is none, or one of another version."""
    return next((reason for reason in Reason if reason == text), None)
