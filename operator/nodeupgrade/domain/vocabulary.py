"""The fixed vocabulary of reasons. A reason is CamelCase because the Kubernetes API conventions ask for it."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why something was refused, skipped, held, or how it ended."""

    # The object cannot be acted upon.
    INVALID_SPEC = "InvalidSpec"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    NODE_NOT_FOUND = "NodeNotFound"
    NO_MATCHING_NODES = "NoMatchingNodes"
    SPEC_CHANGE_REJECTED = "SpecChangeRejected"
    WINDOW_NEVER_OPENS = "WindowNeverOpens"

    # The node is refused before anything is touched; the API server alone tells.
    DOWNGRADE_NOT_ALLOWED = "DowngradeNotAllowed"
    VERSION_SKEW = "VersionSkew"
    NODE_NOT_READY = "NodeNotReady"
    CORDONED_BY_OTHERS = "CordonedByOthers"
    UNSUPPORTED_RUNTIME = "UnsupportedRuntime"
    ARTIFACT_UNAVAILABLE = "ArtifactUnavailable"
    NODE_AFFINITY_NOT_MET = "NodeAffinityNotMet"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    OVERLAP_CONFLICT = "OverlapConflict"
    OBJECT_UNREADABLE = "ObjectUnreadable"

    # The node is refused before anything is touched; only the node itself tells.
    DIGEST_MISMATCH = "DigestMismatch"
    WRONG_VERSION_REPORTED = "WrongVersionReported"
    STORED_HASH_NOT_REPRODUCED = "StoredHashNotReproduced"
    UNKNOWN_CONTAINER = "UnknownContainer"
    STATIC_POD_NOT_EDITABLE = "StaticPodNotEditable"
    KUBELET_FLAGS_REJECTED = "KubeletFlagsRejected"
    RESIZE_POLICY_RESTART = "ResizePolicyRestart"
    POD_CGROUP_MOVES = "PodCgroupMoves"
    POD_IN_TRANSITION = "PodInTransition"
    UNSUPPORTED_SERVICE_MANAGER = "UnsupportedServiceManager"
    INSUFFICIENT_SPACE = "InsufficientSpace"
    AGENT_UNAVAILABLE = "AgentUnavailable"
    KUBELET_WOULD_NOT_START = "KubeletWouldNotStart"
    PROGRAM_NOT_REPLACEABLE = "ProgramNotReplaceable"
    RUNTIME_NOT_READY = "RuntimeNotReady"
    INTERNAL_ERROR = "InternalError"
    HASHES_WOULD_CHANGE = "HashesWouldChange"
    READINESS_GUARD_UNAVAILABLE = "ReadinessGuardUnavailable"
    STARTUP_PROBE_RUNS_AGAIN = "StartupProbeRunsAgain"
    KUBELET_DEFECT = "KubeletDefect"

    # What deserves attention about a node's pods and their clients, and sometimes forbids a run.
    ENDPOINTS_WOULD_BE_LOST = "EndpointsWouldBeLost"
    SERVICES_NOT_READ = "ServicesNotRead"
    PROBE_FAILS = "ProbeFails"
    EXEC_PROBE_TIMED = "ExecProbeTimed"

    # Left alone on purpose.
    ALREADY_AT_TARGET = "AlreadyAtTarget"
    STILL_SKEWED = "StillSkewed"
    UNSUPPORTED_SOURCE = "UnsupportedSource"
    READINESS_GUARD_OFF = "ReadinessGuardOff"
    READINESS_GUARD_NOT_NEEDED = "ReadinessGuardNotNeeded"

    # How a run ended.
    SUCCEEDED = "Succeeded"
    ROLLED_BACK = "RolledBack"
    CONTAINER_RESTARTED = "ContainerRestarted"
    INVENTORY_CHANGED = "InventoryChanged"
    STEP_FAILED = "StepFailed"
    KUBELET_DID_NOT_START = "KubeletDidNotStart"
    VERIFICATION_FAILED = "VerificationFailed"
    RUNTIME_DID_NOT_ANSWER = "RuntimeDidNotAnswer"
    BUDGET_SPENT = "BudgetSpent"
    NODE_REBOOTED = "NodeRebooted"
    EXECUTOR_LOST = "ExecutorLost"
    ABORTED = "Aborted"
    ROLLBACK_FAILED = "RollbackFailed"
    PRECHECKED = "Prechecked"

    # How a rollout stands.
    VALID = "Valid"
    PLAN_READY = "PlanReady"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    NODES_CLAIMED = "NodesClaimed"
    HAZARDS_FOUND = "HazardsFound"
    QUEUED = "Queued"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    AWAITING_APPROVAL = "AwaitingApproval"
    SOAKING = "Soaking"
    TOO_MANY_UNAVAILABLE = "TooManyUnavailable"
    TIMED_OUT = "TimedOut"
    FAILURE_THRESHOLD_REACHED = "FailureThresholdReached"
    ALL_NODES_UPGRADED = "AllNodesUpgraded"
    COMPLETED_WITH_SKIPS = "CompletedWithSkips"
    NODES_REFUSED = "NodesRefused"
    NODES_FAILED = "NodesFailed"
    FAILED = "Failed"
    VERIFIED = "Verified"
    NOT_YET_VERIFIED = "NotYetVerified"
    RESTARTS_DETECTED = "RestartsDetected"
    DELETING = "Deleting"

    # What happened, for events.
    ADMITTED = "Admitted"
    CORDONED = "Cordoned"
    UNCORDONED = "Uncordoned"
    GUARDED = "Guarded"
    GUARD_LIFTED = "GuardLifted"
    AGENT_STARTED = "AgentStarted"
    AGENT_REPLACED = "AgentReplaced"
    CLAIMED = "Claimed"
    REOPENED = "Reopened"
    RETRY_IGNORED = "RetryIgnored"
    WAVE_STARTED = "WaveStarted"
    WAVE_COMPLETED = "WaveCompleted"
    UNKNOWN_WAVE = "UnknownWave"
