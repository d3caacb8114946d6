"""The reasons for the state of a node or a rollout, each with its meaning and remedy.

Control plane and node side report them. Every reason has a remedy, so that every message says what to do. A particular
finding on a node or in a rollout is a ``findings.finding.Finding``.
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
    """People should know about it before and after a run, but it does not prevent the run."""


class Reason(StrEnum):
    """Why something was refused, skipped or held, or how it ended."""

    _value_: str
    meaning: str  # a clause
    remedy: str  # what a person can do about it, as a clause
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
    INVALID_SPEC = ("InvalidSpec", "the NodeUpgrade's spec is invalid", "correct the field named in the message")
    UNSUPPORTED_VERSION = ("UnsupportedVersion", "the container hashes of this kubelet version are not known",
        "choose a version listed in the documentation, or upgrade nodeupgrade")
    NODE_NOT_FOUND = ("NodeNotFound", "spec.nodes.names lists a node that does not exist",
        "correct the name in a new NodeUpgrade")
    NODE_LOST = ("NodeLost", "the Node was deleted during its run and did not return, so the outcome is unknown",
        "inspect the machine if it still exists, then retry")
    NODE_OVERDUE = ("NodeOverdue",
        "the run of a node is minutes past its deadline, and the node does not report",
        "inspect the machine, its kubelet and the agent pod; if the machine is gone for good, delete its Node")
    NOT_IN_PLAN = ("NotInPlan",
        "the node joined or was labelled after the plan was made, or its NodeUpgradeTask was deleted before its turn",
        "upgrade it with another NodeUpgrade, or use spec.nodes.membership: Continuous", Severity.SKIP)
    NO_MATCHING_NODES = ("NoMatchingNodes", "no node matches spec.nodes",
        "correct the selector or label the nodes; nodes are matched again automatically")
    SPEC_CHANGE_REJECTED = ("SpecChangeRejected",
        "an immutable field of the spec was changed during the rollout, so no further node is started",
        "restore the field, and create another NodeUpgrade for the new value")
    NOT_ALLOWED = ("NotAllowed",
        "the operator's configuration does not allow this artifact, pull secret, unit or file",
        "use one that is allowed, or have the administrator allow it (the chart's allowed, or manifests/allowed.yaml)")
    WINDOW_NEVER_OPENS = ("WindowNeverOpens", "every window lies within blackouts or never opens",
        "correct spec.windows or spec.blackouts")

    # The node is refused before anything is touched, based on the API server alone.
    DOWNGRADE_NOT_ALLOWED = ("DowngradeNotAllowed", "the target is older than the node's kubelet",
        "to downgrade it, create a NodeUpgrade with allowDowngrade: true")
    VERSION_SKEW = ("VersionSkew", "the API server does not support kubelets of the target version",
        "upgrade the control plane first, choose a nearer version, or set skewPolicy: Warn")
    TOKENS_NOT_REQUESTED = ("TokensNotRequested",
        "the kubelet does not request tokens, and the API server gives pods no others, so no agent can report",
        ("replace the node, or upgrade it under an API server before 1.21; "
         "accept the check if something else gives pods their tokens"))
    NODE_NOT_READY = ("NodeNotReady", "the node is not Ready",
        "repair the node; it is retried as soon as it is Ready")
    CORDONED_BY_OTHERS = ("CordonedByOthers", "another user or controller cordoned the node",
        "uncordon it, or use nodes.cordoned: Include to upgrade it while it stays cordoned", Severity.SKIP)
    UNSUPPORTED_RUNTIME = ("UnsupportedRuntime", "the node's container runtime is not supported",
        f"exclude the node; {supported_runtimes()}")
    RUNTIME_UNPROVEN = ("RuntimeUnproven",
        "the node's container runtime is supported, but its version has not been tested on real nodes",
        "exclude the node; or accept the check for one node that you can afford to lose, and report the result")
    UNSUPPORTED_NODE = ("UnsupportedNode",
        "the node's kubelet is not a separate Linux program, so it cannot be replaced",
        "exclude the node, and upgrade it with the tools of its operating system or distribution")
    ARTIFACT_UNAVAILABLE = ("ArtifactUnavailable",
        "there is no kubelet binary for this node's platform, or it cannot be fetched",
        "make the file reachable from the node, or create another NodeUpgrade whose spec.artifact has the platform")
    NODE_AFFINITY_NOT_MET = ("NodeAffinityNotMet",
        "a running pod's node selector or affinity no longer matches the node: any kubelet restart would kill it",
        "restore the node's labels, or delete the pod")
    TAINT_NOT_TOLERATED = ("TaintNotTolerated",
        "a running pod does not tolerate a NoExecute taint of the node, so it is about to be evicted",
        "remove the taint, or wait until the pod is gone")
    NOT_SELECTED = ("NotSelected", "spec.nodes does not select the node any more", NOTHING_TO_DO, Severity.SKIP)
    OVERLAP_CONFLICT = ("OverlapConflict", "another NodeUpgrade holds the node",
        "wait until that NodeUpgrade is finished, or delete it")
    OBJECT_UNREADABLE = ("ObjectUnreadable",
        "this version cannot read a field of the Node or its NodeUpgradeTask, so nodeupgrade leaves the node alone",
        "run the version of nodeupgrade that wrote it, or correct the field; delete the task only if no run is active")

    # The node is refused before anything is touched, based on the node itself.
    DIGEST_MISMATCH = ("DigestMismatch", "the kubelet binary does not have the expected SHA-256",
        "replace the file, or create another NodeUpgrade with its digest")
    WRONG_VERSION_REPORTED = ("WrongVersionReported",
        "the kubelet binary reports a version other than spec.version",
        "create another NodeUpgrade whose spec.artifact has spec.version")
    STORED_HASH_NOT_REPRODUCED = ("StoredHashNotReproduced",
        "the hash stored with a running container cannot be recomputed from its pod",
        "recreate the pod named in the message")
    HASHES_NOT_YET_COMPARED = ("HashesNotYetCompared", "the running kubelet may not have compared every hash yet",
        "wait; the node is examined three more times automatically; after that, retry")
    UNKNOWN_CONTAINER = ("UnknownContainer", "a running container belongs to no pod of this node",
        "remove the container, or wait for its pod")
    STATIC_POD_NOT_EDITABLE = ("StaticPodNotEditable", "no fixed UID can be added safely to a static pod's manifest",
        "set metadata.uid in the manifest yourself")
    KUBELET_FLAGS_REJECTED = ("KubeletFlagsRejected", "the new kubelet does not accept a flag in use",
        "remove the flag, or use kubelet.flagPolicy: Strip with kubelet.removeFlags")
    RESIZE_POLICY_RESTART = ("ResizePolicyRestart",
        "an in-place resize would restart a container after the swap",
        "finish or revert the resize of the pod named in the message")
    POD_MAY_RESTART_AS_A_WHOLE = ("PodMayRestartAsAWhole",
        "a pod has a rule that restarts all of its containers, which the run could not tell from damage",
        "wait until the pod is gone, or accept the check: if the rule applies during the run, the node is rolled back")
    RESTART_POLICY_IGNORED = ("RestartPolicyIgnored",
        "a kubelet before 1.35 ignores the restart policies of single containers, and goes by those of their pods",
        "delete the pod, or choose 1.35 or later")
    POD_CGROUP_WOULD_CHANGE = ("PodCgroupWouldChange", "the new kubelet would move a running pod to another cgroup",
        "keep the node's cgroup settings as they are")
    DEVICES_WOULD_BE_LOST = ("DevicesWouldBeLost",
        "a running container may use devices that systemd does not know of, and a daemon-reload would take them away",
        "use CDI, not NVIDIA's legacy hook, and runc 1.1.7 or later, or symlinks in /dev/char; recreate the container")
    PODS_TOO_LARGE = ("PodsTooLarge", "the pods of the node are together too large to be examined",
        "delete the largest pods of the node, or make them smaller, then retry")
    POD_IN_TRANSITION = ("PodInTransition", "a pod is starting or terminating",
        "wait; the node is examined three more times automatically; after that, retry")
    UNSUPPORTED_SERVICE_MANAGER = ("UnsupportedServiceManager",
        "the kubelet is not a systemd unit on this node, or systemd is too old",
        "exclude the node, or correct spec.kubelet.unit")
    INSUFFICIENT_SPACE = ("InsufficientSpace", "too little disk space is left for a run", "free space on the node")
    AGENT_UNAVAILABLE = ("AgentUnavailable", "the agent pod cannot run on the node",
        "inspect the agent pod in the operator's namespace")
    AGENT_NOT_STARTED = ("AgentNotStarted", "no agent pod could be started on the node", "remove the cause, and retry")
    WRITE_REFUSED = ("WriteRefused",
        "the API server rejects, or does not answer, a write that a node needs; other nodes are not affected",
        "let the webhook, policy, quota or role that the message names allow it (the write is retried automatically)")
    HOOK_FAILED = ("HookFailed", "a hook of the node failed or timed out", "inspect its Job; retry a refused node")
    TASK_LOST = ("TaskLost",
        "the NodeUpgradeTask of a node in flight was deleted; it is recreated, and an agent determines what happened")
    CORDON_LEFT_BEHIND = ("CordonLeftBehind",
        "a NodeUpgrade that is deleted or finished left the node cordoned, and it is unknown whether its run has ended",
        "make sure that no process or unit of nodeupgrade runs on the node, then uncordon it")
    KUBELET_WOULD_NOT_START = ("KubeletWouldNotStart",
        "the new kubelet would not start with the node's configuration, state files or cgroup hierarchy",
        "change what the message names, restart the kubelet, and retry")
    CONFIGURATION_DRIFT = ("ConfigurationDrift",
        "the kubelet's configuration was changed after its start, so that a restart would apply the change",
        ("restart the kubelet at a time of your choice first, or set kubelet.configurationDrift: Accept "
         "if the change is meant for the new kubelet"))
    POD_WOULD_NOT_BE_ADMITTED = ("PodWouldNotBeAdmitted",
        "a starting kubelet admits all pods again, and would reject and so kill a running one",
        "change what the message names, or delete the pod")
    KUBELET_BINARY_NOT_REPLACEABLE = ("KubeletBinaryNotReplaceable",
        "the kubelet binary cannot be replaced at its path", "remove the attribute or mount that the message names")
    RUNTIME_NOT_READY = ("RuntimeNotReady", "a restart of the container runtime would endanger containers now",
        "wait until the node is less busy, or repair the pod named in the message")
    RUNTIME_CONFIGURATION_DRIFT = ("RuntimeConfigurationDrift",
        "the container runtime's program or configuration was changed after its start",
        "revert what the message names, or restart the runtime at a time of your choice first")
    RUNTIME_RESTART_WOULD_KILL_POD = ("RuntimeRestartWouldKillPod",
        "a container runs under a different shim than its pod, so a restart of the runtime would kill the pod",
        "delete the pod named in the message")
    UNSUPPORTED_UNIT_COMMAND = ("UnsupportedUnitCommand",
        "the unit of the kubelet or of the runtime runs a command that may change what the upgrade depends on",
        "remove the line named in the message from the unit")
    INTERNAL_ERROR = ("InternalError", "an internal error occurred in nodeupgrade",
        "report it together with the log of the agent or the operator")
    FILE_UNAVAILABLE = ("FileUnavailable", "the content of a file of spec.files cannot be read",
        "create the ConfigMap or Secret in the operator's namespace, or correct spec.files, and retry")
    FILE_NOT_REPLACEABLE = ("FileNotReplaceable",
        "a file of spec.files cannot be replaced on the node and restored exactly",
        "follow the message on the node, or leave the file out of spec.files in a new NodeUpgrade")
    SETTING_NOT_CHANGEABLE = ("SettingNotChangeable",
        "spec.files would change a setting that running pods or the run itself depend on",
        "leave the setting that the message names unchanged, in the spec.files of a new NodeUpgrade")
    HASHES_WOULD_CHANGE = ("HashesWouldChange",
        "stored hashes would have to be rewritten, which hash.mode: AssertUnchanged forbids",
        "choose a version that computes the same hashes, or set hash.mode: Rewrite")
    READINESS_GUARD_UNAVAILABLE = ("ReadinessGuardUnavailable",
        "pods cannot be kept Ready until the new kubelet has probed them",
        "install the readiness guard (API servers from 1.30 on), or set verify.readinessGuard: Auto to do without it")
    SHIELD_UNAVAILABLE = ("ShieldUnavailable",
        "the runtime's socket cannot be shielded: a kubelet that ends a container is noticed but not prevented",
        "remove the obstacle, or set verify.shield: Auto to upgrade without the shield (Off: without the warning, too)")
    RUNTIME_SOCKET_MOUNTED = ("RuntimeSocketMounted",
        "a container mounts the runtime's socket as a file, which the runtime's restart replaces",
        "mount the directory of the socket instead, or restart the pods that the message names after the upgrade")
    KUBELET_DEFECT = ("KubeletDefect", "the target has a defect that would harm a pod of the node",
        "choose a later patch release")
    VOLUME_NOT_SUPPORTED = ("VolumeNotSupported",
        "the new kubelet would not find, or does not support, a volume that a pod of the node uses",
        "delete the pod that uses it, so that it is unmounted, or drain and exclude the node")
    KUBELET_STOP_AFFECTS_OTHERS = ("KubeletStopAffectsOthers",
        "stopping the kubelet would also end another unit or process on the node",
        "remove the dependency that the message names, or stop it at a time of your choice first")
    NODE_UNDER_PRESSURE = ("NodeUnderPressure", "the node is short of memory, disk space or process IDs",
        "free some of the resource that the message names; the node is retried as soon as it has enough")
    CONFLICTING_NODE_OPERATION = ("ConflictingNodeOperation",
        "another program or controller is changing the node, or is about to restart or remove it",
        "wait until it is done, or pause it")
    DESCHEDULER_EVICTS = ("DeschedulerEvicts",
        "a descheduler evicts the pods of cordoned nodes, and an upgrade cordons its node",
        ("give its plugin RemovePodsViolatingNodeTaints `excludedTaints: [node.kubernetes.io/unschedulable]`, "
         "suspend it during the rollout, or set spec.nodes.cordon: false"))
    KUBELET_FROM_PACKAGE = ("KubeletFromPackage",
        "the kubelet belongs to a package, whose next upgrade or reinstallation would undo the node's upgrade",
        "hold the package (kubelet.package: Hold, apt-mark hold, dnf versionlock add), or set kubelet.package: Ignore")
    CONTROL_PLANE_VERSIONS_DIFFER = ("ControlPlaneVersionsDiffer", "the API servers run different versions",
        "finish the upgrade of the control plane first; the rollout continues automatically")

    # Warnings about the start of a node's kubelet.
    SETTING_IGNORED = ("SettingIgnored", "the new kubelet ignores a setting that it does not know",
        "correct or remove the field that the message names", Severity.WARN)
    KUBELET_DEFAULT_CHANGES = ("KubeletDefaultChanges", "the new kubelet has another default for a setting",
        "set explicitly what the message names", Severity.WARN)
    CLOCK_SKEW = ("ClockSkew", "the node's clock differs from that of the API server",
        "set the node's clock, for example with chrony or systemd-timesyncd", Severity.WARN)
    EVICTION_THRESHOLD_MET = ("EvictionThresholdMet",
        "a filesystem has less left than the kubelet's eviction thresholds, so the kubelet would evict pods",
        "free space or inodes on the filesystem that the message names, or correct evictionHard")

    # Warnings about a node's pods and their clients, some of which can prevent a run.
    ENDPOINTS_WOULD_BE_LOST = ("EndpointsWouldBeLost",
        "a kubelet before 1.35 reports pods unready until it has probed them, and Services drop them meanwhile",
        "install the readiness guard (API servers from 1.30 on), or run replicas on other nodes too")
    SERVICES_NOT_READABLE = ("ServicesNotReadable",
        "the agent could not read the endpoints of Services, or other objects that depend on the node's pods",
        "allow its service account to list what the message names, as manifests/agent-rbac.yaml does", Severity.WARN)
    READINESS_PROBE_FAILING = ("ReadinessProbeFailing",
        "readiness probes fail before the upgrade, so those pods are expected to be unready afterwards too",
        "inspect the pods named in the message", Severity.WARN)
    STARTUP_PROBE_RUNS_AGAIN = ("StartupProbeRunsAgain",
        "a kubelet before 1.35 runs startup probes again, and kills a container whose probe keeps failing",
        "make sure that the probes named in the message succeed as long as their containers run, or delete the pods")
    IPTABLES_CHAINS_NOT_CREATED = ("IptablesChainsNotCreated",
        "kubelets from 1.27 on do not create the chains that mark packets",
        "change the configuration that refers to the chain before the node is restarted", Severity.WARN)
    CORDON_REMOVES_TRAFFIC = ("CordonRemovesTraffic",
        "control planes before 1.19 remove a cordoned node from the load balancers of Services",
        "make sure that other nodes can take the traffic of those load balancers meanwhile", Severity.WARN)
    EXEC_PROBE_TIMEOUT_ENFORCED = ("ExecProbeTimeoutEnforced",
        "kubelets from 1.20 on enforce the timeout of exec probes",
        "make sure that the probes named in the message are quick enough, or raise their timeoutSeconds", Severity.WARN)
    HTTPS_PROBE_MAY_FAIL = ("HTTPSProbeMayFail",
        "kubelets from 1.23.16 on require TLS 1.2 in HTTPS probes; later ones refuse old ciphers, keys and signatures",
        "let what the named probes ask offer TLS 1.2 with ECDHE and SHA-256, or later, and no RSA key under 1024 bits",
        Severity.WARN)
    GRPC_PROBE_RUNS_FIRST = ("GRPCProbeRunsFirst",
        "kubelets from 1.24 on run gRPC probes, which older ones ignore",
        "make sure that the probes named in the message succeed as long as their containers run", Severity.WARN)

    CONTAINER_WOULD_NOT_RESTART = ("ContainerWouldNotRestart",
        "a container keeps running, but the new kubelet could not start it again once it ends",
        "change what the message names before the container has to be started again", Severity.WARN)
    POD_EXPECTED_TO_END = ("PodExpectedToEnd",
        "a pod or container is expected to end or restart during the run, which would look like a loss",
        "wait until that is over, or repair the container", Severity.WARN)
    STATIC_POD_EDIT_PENDING = ("StaticPodEditPending",
        "a static pod's manifest was edited, but its metadata.uid keeps the running pod unchanged",
        "remove metadata.uid from the manifest, which replaces the pod, or revert the edit", Severity.WARN)
    STATIC_PODS_RECREATED = ("StaticPodsRecreated",
        "the new kubelet replaces static pods, which interrupts what they serve, such as the API server or etcd",
        "make sure that an interruption is acceptable, or use kubelet.staticPods: Pin", Severity.WARN)
    POD_WITHOUT_CONTROLLER = ("PodWithoutController",
        "no controller would replace a pod that does not survive the run",
        "back up its data, or let a controller own it", Severity.WARN)
    KUBEADM_UPGRADES_FIRST = ("KubeadmUpgradesFirst",
        "kubeadm manages the node's control plane, and upgrades it before the kubelet",
        "if `kubeadm upgrade` is due on this node, run it first, and then restart the kubelet", Severity.WARN)
    RUNTIME_CONNECTION_WOULD_BREAK = ("RuntimeConnectionWouldBreak",
        "a container is connected to the runtime, and may exit when the runtime's restart breaks the connection",
        "make sure that the program reconnects instead of exiting", Severity.WARN)
    DEBUG_SESSION_WOULD_END = ("DebugSessionWouldEnd",
        "an ephemeral container runs; whoever is attached to it is disconnected when the kubelet stops",
        "end the session first, or attach again afterwards", Severity.WARN)

    # The node is skipped on purpose.
    READINESS_GUARD_OFF = "ReadinessGuardOff", "spec.verify.readinessGuard is Off"
    READINESS_GUARD_NOT_NEEDED = "ReadinessGuardNotNeeded", "the new kubelet keeps the results of earlier probes"
    ALREADY_AT_TARGET = "AlreadyAtTarget", "the node already runs the target version", NOTHING_TO_DO, Severity.SKIP
    VERSION_SKEW_REMAINS = ("VersionSkewRemains",
        "the target is nearer to the API server's version but still outside the supported skew",
        "upgrade the node again afterwards", Severity.WARN)
    SOURCE_VERSION_NOT_LISTED = ("SourceVersionNotListed",
        "spec.fromVersions does not list the version that the node runs",
        "to upgrade the node, use another NodeUpgrade", Severity.SKIP)

    SKIPPED_BY_ANNOTATION = ("SkippedByAnnotation", "the node has the annotation nodeupgrade.dev/skip",
        "remove the annotation from the node to have it upgraded", Severity.SKIP)
    HELD_BY_ANNOTATION = ("HeldByAnnotation",
        "the node has the annotation nodeupgrade.dev/hold, so the rollout waits",
        "remove the annotation to continue, or replace it with nodeupgrade.dev/skip to leave the node out")
    HELD_BY_POD = ("HeldByPod",
        "a pod of the node has the annotation nodeupgrade.dev/hold, so the rollout waits for a limited time",
        "remove it from the pod, or annotate the node with nodeupgrade.dev/skip, or set spec.timeouts.podHold to 0s")

    # How a run ended.
    SUCCEEDED = "Succeeded", "the new kubelet runs and no container was restarted"
    ROLLED_BACK = ("RolledBack", "the old kubelet runs again",
        "look up the cause in the task's status, remove it, then retry")
    CONTAINER_RESTARTED = ("ContainerRestarted", "at least one container was restarted",
        "see the list of containers in the task's status")
    SHIELD_REFUSED_CALL = ("ShieldRefusedCall",
        "a kubelet tried to end a container or pod that ran before the upgrade, and the shield refused the call",
        "find the cause in the caller and the kubelet's log lines that the message quotes")
    INVENTORY_CHANGED = ("InventoryChanged",
        "containers started or ended between planning and stopping the kubelet, so the plan no longer fits",
        "retry when fewer pods change on the node; nothing was rewritten")
    UNIT_CHANGED = ("UnitChanged", "the kubelet's unit or configuration was changed while the node was upgraded",
        "inspect the unit (`systemctl cat`) or file that the message names, and find out which program changes it")
    STEP_FAILED = ("StepFailed", "a step failed, and the earlier steps were undone",
        "read the message and the journal on the node, fix the cause, and retry")
    KUBELET_DID_NOT_START = ("KubeletDidNotStart", "the new kubelet exited or never became healthy",
        "look at the kubelet's log on the node")
    KUBELET_PORT_TAKEN = ("KubeletPortTaken",
        "another process listens at a port that the kubelet needs",
        "end that process, or have it use another port: a run that waits for it continues automatically")
    KUBELET_NOT_SHOWN = ("KubeletNotShown",
        "the new kubelet is healthy, but the API server, which answers the agent, does not show its version",
        "look at the kubelet's log on the node for errors of its connection: TLS, proxy, credentials")
    VERIFICATION_FAILED = ("VerificationFailed", "the node is not in the expected state after the swap",
        "look at the message, the node and its pods")
    RUNTIME_DID_NOT_ANSWER = ("RuntimeDidNotAnswer", "the container runtime did not answer in time",
        "look at the runtime's log on the node")
    RUNTIME_LOST_PODS = ("RuntimeLostPods",
        "the container runtime does not list containers that still run, so no kubelet is started on it",
        ("repair the runtime's configuration and restart it: the run continues automatically; if the runtime has lost "
         "them for good, restart the node: the run is rolled back and every pod is started again"))
    KUBELET_DOWN_BUDGET_EXCEEDED = ("KubeletDownBudgetExceeded",
        "the node was without a kubelet for longer than its budget, so everything was undone",
        "look for the slow step in the task's status, or raise verify.kubeletDownBudget")
    NODE_REBOOTED = ("NodeRebooted", "the node rebooted during the run",
        "check the node; the reboot restarted its containers")
    EXECUTOR_UNAVAILABLE = ("ExecutorUnavailable",
        "systemd on the node cannot start the executor, which replaces the kubelet",
        "allow programs to be executed in the directory that the message names (noexec, SELinux), then retry")
    RUN_DIRECTORY_NOT_PERSISTENT = ("RunDirectoryNotPersistent",
        "a node that loses power during its run could neither finish nor undo it, since its records are lost at boot",
        "keep the directory that the message names on a disk, or exclude the node")
    EARLIER_RUN_FOUND = ("EarlierRunFound",
        "an unreported run for another version was found on the node; the message says how it ended",
        "read the message; the node is examined again automatically")
    EXECUTOR_AT_WORK = ("ExecutorAtWork",
        "the executor of another run is still at work on the node, which is examined again automatically")
    EXECUTOR_LOST = ("ExecutorLost",
        "the executor could no longer run, so the rescue script restored the old kubelet",
        "find out what removed or damaged the bundle on the node, then create a new NodeUpgrade")
    ABORTED = "Aborted", "the run was aborted on request"
    ROLLBACK_FAILED = ("RollbackFailed", "the node could not be rolled back to the old kubelet",
        "repair the node by the steps of docs/rollouts.md (a wrong kubelet restarts every container), then retry")
    PRECHECKED = "Prechecked", "no check of the node prevents its upgrade; it is untouched"

    # How a rollout stands.
    VALID = "Valid", "the spec is valid"
    PLAN_READY = "PlanReady", "the nodes to upgrade are known"
    PROGRESSING = "Progressing", "nodes are being upgraded or waited for"
    PAUSED = ("Paused", "no further node is started",
        "set spec.action: Run to continue, or remove the annotation nodeupgrade.dev/pause (nodeupgrade resume)")
    NODES_CLAIMED = "NodesClaimed", "the selected nodes are being claimed and examined"
    HAZARDS_FOUND = ("HazardsFound", "the plan was made and at least one node would be refused",
        "look at status.failures, remove the causes, and retry; or set spec.action: Run to upgrade the others")
    QUEUED = "Queued", "another NodeUpgrade holds the same nodes", "wait until it is finished, or delete it"
    WAITING_FOR_WINDOW = "WaitingForWindow", "no node may be started outside spec.windows"
    AWAITING_APPROVAL = ("AwaitingApproval", "the next wave needs an approval",
        "add its name to spec.approvedWaves or to the annotation nodeupgrade.dev/approve")
    SOAKING = "Soaking", "the rollout waits until the soak time of a wave is over"
    AWAITING_HEALTH_CHECKS = "AwaitingHealthChecks", "a health check has not passed for long enough yet"
    HEALTH_CHECK_FAILED = ("HealthCheckFailed", "a health check fails, so no further node is started",
        "repair what it checks; the rollout continues automatically once the check has passed for long enough")
    HEALTH_CHECK_ERROR = ("HealthCheckError", "a health check cannot be evaluated, so no further node is started",
        "repair what the message names, or correct spec.healthChecks; the rollout then continues automatically")
    HEALTH_CHECKS_PASSED = "HealthChecksPassed", "every health check passes"
    TOO_MANY_UNAVAILABLE = ("TooManyUnavailable",
        "as many nodes as strategy.maxUnavailable allows are already unavailable, though not because of this rollout",
        "repair or uncordon nodes, or raise strategy.maxUnavailable; the rollout continues automatically")
    CLUSTER_BUDGET_REACHED = ("ClusterBudgetReached",
        "as many nodes of the cluster are in flight or unavailable as the operator's settings allow",
        "wait for other rollouts, or have the operator's maxInFlight or maxUnavailable raised")
    TIMED_OUT = ("TimedOut", "the wave or the rollout took longer than spec.timeouts allows",
        "raise the timeout to continue")
    FAILURE_THRESHOLD_REACHED = ("FailureThresholdReached",
        "the number of failed nodes has reached failureThreshold, so no further node is started",
        "look at status.failures, remove the cause, then set the annotation nodeupgrade.dev/retry to a new token")
    SAME_CAUSE_REPEATED = ("SameCauseRepeated", "several nodes in a row ended for the same reason",
        "remove the cause that the message names, then set the annotation nodeupgrade.dev/retry to a new token")
    NO_PROGRESS = ("NoProgress", "nothing has changed in the rollout for as long as spec.timeouts.noProgress allows",
        "see what the message names; raise the timeout if that is how long it takes")
    ALL_NODES_UPGRADED = "AllNodesUpgraded", "every selected node runs the target version"
    COMPLETED_WITH_SKIPS = "CompletedWithSkips", "every selected node is upgraded or skipped", "see status.skips"
    NODES_REFUSED = ("NodesRefused", "at least one node was refused and left untouched",
        "remove the cause, and retry nodes refused in the step preflight; others are examined again automatically")
    NODES_FAILED = "NodesFailed", "at least one node failed", "see status.failures"
    FAILED = "Failed", "the rollout ended without success", "see status.failures"
    VERIFIED = "Verified", "no container was restarted"
    NOT_YET_VERIFIED = "NotYetVerified", "no node has been verified yet"
    RESTARTS_DETECTED = ("RestartsDetected", "containers were restarted",
        "see status.containers and the tasks' restartedList")
    DELETING = "Deleting", "nodes in flight are finished before the object is deleted", "wait"

    # What happened, for events.
    ADMITTED = "Admitted", "the node's upgrade begins"
    CORDONED = "Cordoned", "the node was cordoned for its upgrade"
    UNCORDONED = "Uncordoned", "the node's cordon was restored to its previous state"
    READINESS_GUARD_RAISED = "ReadinessGuardRaised", "the node's pods stay Ready until its new kubelet has probed them"
    READINESS_GUARD_LIFTED = "ReadinessGuardLifted", "the node's pods are again as ready as its kubelet reports"
    AGENT_STARTED = "AgentStarted", "the agent pod was created"
    AGENT_REPLACED = "AgentReplaced", "a lost agent pod was replaced; the run continues"
    CLAIMED = "Claimed", "the node belongs to the rollout and waits for its turn"
    REOPENED = "Reopened", "the node is retried"
    RETRIED = "Retried", "a retry was carried out, so earlier failures no longer count"
    RETRY_IGNORED = "RetryIgnored", "an aborted rollout cannot be retried", "create a new NodeUpgrade"
    WAVE_STARTED = "WaveStarted", "the first node of a wave is started"
    WAVE_COMPLETED = "WaveCompleted", "every node of a wave is finished, skipped or refused"
    UNKNOWN_WAVE = "UnknownWave", "an approval names a wave that does not exist", "correct the name"
    # fmt: on


def known_reason(text: str | None) -> Reason | None:
    """Return the reason that a status or event holds; ``None`` if it is empty or of another version."""
    try:
        return Reason(text or "")
    except ValueError:
        return None
