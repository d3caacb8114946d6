"""What can go wrong for running pods when a kubelet is stopped and another version starts: the catalogue.

Every hazard is what a check looks for (``covers`` in ``findings/check.py``), is met by the way a run works
(``MET_BY_DESIGN``), or is openly without an answer (``NOT_COVERED``). A test ensures that each is in exactly one of
the three.
"""

from collections.abc import Mapping
from enum import StrEnum


class Hazard(StrEnum):
    """One way in which pods could be lost, a kubelet could stay down, or clients could notice."""

    # fmt: off

    # versions and programs
    KUBELET_NEWER_THAN_API = "the kubelet is newer than its API server"
    KUBELET_TOO_OLD_FOR_API = "the API server no longer supports the kubelet"
    TOKENS_NOT_REQUESTED = "a kubelet does not request the tokens that its API server gives pods in no other way"
    PAIR_UNKNOWN = "the hashes of one of the two versions are not known"
    CONTROL_PLANE_IN_CHANGE = "API servers of several versions answer, or their version changes during the rollout"
    RELEASE_DEFECT = "the target release has a defect that ends or hides containers when a kubelet starts"
    PROGRAM_WRONG = "the new program is incomplete, of another version or architecture, or does not run on the node"
    PROGRAM_SHARED = "other nodes start the same file, and get the new kubelet at their next start"
    KUBELET_NOT_A_SERVICE = "the kubelet is part of a distribution's program, runs in a container, or is not a service"

    # start-up
    FLAG_REJECTED = "the new kubelet rejects a flag"
    COMMAND_LINE_DRIFTED = "the unit would start the kubelet with a different command line than the running one"
    GATE_REJECTED = "the new kubelet rejects a feature gate"
    GATE_DEFAULT_FLIPS = "the default of a feature gate that concerns running pods changes"
    CONFIGURATION_REJECTED = "the new kubelet rejects its configuration"
    DEFAULT_CHANGES = "the default of a setting that concerns running pods changes"
    CONFIGURATION_DRIFTED = "the configuration on disk differs from that of the running kubelet"
    CGROUP_V1_REFUSED = "the new kubelet does not start on cgroup v1"
    SWAP_REFUSED = "swap is on, and the kubelet does not start with it"
    RUNTIME_API_TOO_OLD = "the runtime does not serve the API that the new kubelet needs"
    RUNTIME_ENDPOINT_UNSET = "the kubelet's runtime endpoint is not set, or names the one that kubelets once contained"
    CLOUD_PROVIDER_REMOVED = "the cloud provider that the kubelet is started with was removed"
    NODE_LABEL_REJECTED = "the kubelet may not set one of its node labels"
    CERTIFICATE_UNUSABLE = "the kubelet's client certificate or kubeconfig is missing, expired or not accepted"
    CREDENTIAL_PROVIDER_UNUSABLE = "the configuration of credential providers, or one of them, is not usable"
    IMAGE_PULLS_VERIFIED = "the new kubelet verifies pulled images again, so that a restarted container may not start"
    KERNEL_DEFAULTS_PROTECTED = "kernel settings differ from those that protectKernelDefaults requires"
    SOCKETS_TAKEN = "a port or socket that the kubelet listens on belongs to another process"
    DISK_FULL = "the disk or its inodes are below the eviction thresholds, or have no room for a run"
    MEMORY_SHORT = "the node has less memory available than the eviction threshold of the new kubelet"
    KERNEL_LIMIT_REACHED = "no kubelet starts, because inotify, epoll or processes are used up"
    RUN_FORGOTTEN_AT_BOOT = "a boot in the middle of a run removes what would finish or undo it"
    UNIT_LIMITS_STARTS = "the unit's start limit, watchdog, requirements or conditions keep the kubelet down"

    # state files
    CPU_STATE_UNREADABLE = "the state file of the CPU manager cannot be read, or does not fit policy and CPUs"
    MEMORY_STATE_UNREADABLE = "the state file of the memory manager cannot be read, or does not fit the policy"
    DEVICE_STATE_UNREADABLE = "the checkpoint of devices cannot be read, or lacks a running pod"
    DRA_STATE_UNREADABLE = "the state of dynamic resource allocation cannot be read"
    POD_STATE_UNREADABLE = "the state of resized pods cannot be read"
    STATE_UNREADABLE_ON_WAY_BACK = "the old kubelet cannot read what the new one wrote"

    # admission
    CAPACITY_TOO_SMALL = "the pods do not fit into what the kubelet would allot"
    PROCESS_LIMIT_TOO_SMALL = "a pod has more processes than podPidsLimit would allow"
    PLACEMENT_NOT_MET = "the node no longer meets a pod's node selector or affinity"
    LABELS_READ_TOO_EARLY = "a starting kubelet judges placement by its own labels before it has read the Node"
    LABELS_PUT_BACK = "a starting kubelet gives a label that a pod asks for the value that it had before"
    TAINT_NOT_TOLERATED = "a pod does not tolerate a NoExecute taint of the node"
    OPERATING_SYSTEM_DIFFERS = "a pod names another operating system or architecture"
    APPARMOR_PROFILE_MISSING = "an AppArmor profile is not loaded"
    SECCOMP_PROFILE_MISSING = "a seccomp profile is not on the node"
    LOG_ELSEWHERE = "it cannot be shown that a container ended by itself, since the runtime's log is not in the journal"
    VENDOR_ADMISSION = "a kubelet that its vendor changed does not admit a pod that Kubernetes' own kubelets admit"
    SYSCTL_FORBIDDEN = "a sysctl of a pod is not allowed"
    USER_NAMESPACE_IMPOSSIBLE = "a pod's user namespace cannot be recorded or made again"
    POD_FEATURE_OFF = "a feature is off that the spec of a pod needs"
    SIDECARS_UNKNOWN = "a kubelet rejects or does not know restartable init containers"
    HOST_PORTS_COLLIDE = "two pods claim the same port of the host"
    DEVICES_LOST = "a device plugin is not back when its pods are admitted, or their devices are allocated again"
    EXCLUSIVE_RESOURCES_LOST = "CPUs, memory or NUMA nodes of a guaranteed pod are allocated again"
    CLAIMS_LOST = "a claim of dynamic resource allocation cannot be prepared again"
    CRITICAL_POD_PREEMPTS = "a critical pod that does not fit preempts other pods"
    STATIC_POD_REFUSED = "a static pod refers to objects of the API, or has a value, that newer kubelets refuse"
    GROUPS_POLICY_UNKNOWN = "the runtime does not know supplementalGroupsPolicy: Strict"

    # pods and containers
    POD_IN_TRANSITION = "a pod starts, ends, or waits for a volume while the kubelet is exchanged"
    CRASH_LOOP = "a container crashes and is restarted without its back-off"
    WHOLE_POD_RESTARTS = "a rule of a pod restarts all of its containers while the new kubelet is watched"
    RESTART_POLICY_IGNORED = "a kubelet goes by the restart policy of a pod where a container has one of its own"
    SIDECAR_STORAGE_LIMITED = "a pod is evicted because the limit of a sidecar's storage is enforced for the first time"
    DEADLINE_EXPIRES = "a pod's activeDeadlineSeconds ends it during the run"
    LOSS_NOT_HEALED = "a pod that nothing creates again would be lost for good"
    STATIC_POD_UID_CHANGES = "a static pod gets another UID"
    EPHEMERAL_CONTAINERS = "a pod is being debugged in an ephemeral container"
    HASH_NOT_REPRODUCED = "a stored hash is not the one that the old kubelet computes"
    POD_CHANGED_SINCE_PLAN = "a pod's spec changes after its hashes were computed"
    INIT_CONTAINERS_COLLECTED = "an init container that has ended is gone from the runtime, and runs again"
    RESIZE_RESTARTS = "a resize policy restarts a container, or a resize is in progress"
    QOS_CLASS_CHANGES = "the two kubelets give a pod different QoS classes"
    FINALIZERS = "a pod that has ended is held by finalizers"

    # probes, clients, the cluster
    ENDPOINTS_LOST = "readiness is forgotten, and a Service loses endpoints"
    DISRUPTION_BUDGET_BROKEN = "pods under a disruption budget are unready for a moment"
    SIDECAR_STOPS_RESTARTS = "containers beside a sidecar with a startup probe are not restarted"
    PROBE_FAILS_AT_ONCE = "a liveness or startup probe that runs again fails and ends its container"
    EXEC_PROBE_TIMED = "the timeout of an exec probe is enforced for the first time"
    HTTPS_PROBE_REFUSED = "an HTTPS probe fails because the new kubelet refuses the TLS of its server"
    GRPC_PROBE_BEGINS = "a gRPC probe is run for the first time"
    LEASE_EXPIRES = "the node's Lease expires while the kubelet is down"
    NODE_REPORTS_NOT_READY = "a starting kubelet reports the node as not ready"
    CORDON_REMOVES_TRAFFIC = "a load balancer drops a node because it is cordoned"
    WEBHOOK_HOSTED = "the node hosts the only endpoint of a webhook or an aggregated API"
    ACTORS_REACT = "other controllers delete, restart or drain a node that is cordoned or not ready"
    IPTABLES_CHAINS_GONE = "iptables chains that the old kubelet created are no longer created"
    EXCHANGES_AT_ONCE = "several nodes that share a Service are upgraded at once"

    # sandboxes, cgroups, volumes, the host
    SANDBOX_UNSOUND = "a pod's sandbox is not ready, is not the only one, or has no address"
    RUNTIME_LOSES_STATE = "the runtime loses state when it is restarted"
    RUNTIME_SOCKET_REPLACED = "a container has mounted the runtime's socket as a file, and keeps the old one"
    RUNTIME_CONNECTION_BREAKS = "a container exits when its connection to the runtime breaks"
    RUNTIME_STOPS_LATE = "the runtime waits for one of its clients when it stops, and the kubelet is down meanwhile"
    RUNTIME_CHANGES = "the runtime that would start is not the one that runs"
    CGROUP_DRIVER_CHANGES = "the new kubelet uses another cgroup driver"
    CGROUP_CONTROLLER_MISSING = "a pod's cgroup lacks a controller that the kubelet needs"
    DEVICES_TAKEN_AWAY = "a `daemon-reload` takes devices from a running container, which systemd does not know of"
    CGROUP_LIMIT_BELOW_USAGE = "the limit of all pods drops below what they use"
    CGROUP_ROOT_CHANGES = "cgroup root, QoS hierarchy or reserved cgroups change"
    VOLUME_LAYOUT_CHANGES = "the new kubelet looks for a mounted volume at another path, or by another plugin"
    VOLUME_IN_TRANSITION = "a mounted volume is being deleted or detached"
    VOLUME_PLUGIN_REMOVED = "the new kubelet no longer has the plugin of a mounted volume"
    VOLUME_RELABELLED = "the kubelet sets owner, group or SELinux label of a mounted volume again"
    MOUNT_HELPERS_KILLED = "processes that serve mounts live in the kubelet's cgroup and end with it"
    NODE_IDENTITY_CHANGES = "the kubelet registers under another name or address"
    DIRECTORIES_CHANGE = "the kubelet's directories of pods, logs, plugins or manifests change"
    MACHINE_ENDED = "systemd reboots or stops the node because the kubelet or the runtime was stopped or has failed"
    LOG_FILE_REPLACED = "a pod puts something else in the place of a file to which the kubelet or the runtime logs"
    UNITS_BOUND = "other units stop or start together with the kubelet or the runtime"
    NODE_UNDER_PRESSURE = "the node is short of memory, disk or processes, or its clock is wrong"


MET_BY_DESIGN: Mapping[Hazard, str] = {
    Hazard.PROCESS_LIMIT_TOO_SMALL: (
        "a kubelet sets the limit of a pod's cgroup only when it creates one (kubelet-versions)"
    ),
    Hazard.LEASE_EXPIRES: "a separate process renews the Lease until the new kubelet does (readiness)",
    Hazard.POD_CHANGED_SINCE_PLAN: (
        "containers are listed again once the kubelet is stopped, and hashes read back before one is started (design)"
    ),
    Hazard.SOCKETS_TAKEN: (
        "the running kubelet holds its ports until it is stopped; one that would listen elsewhere has drifted, and "
        "replaced files must keep address and ports of its API and health check (before-a-restart)"
    ),
    Hazard.EXCHANGES_AT_ONCE: "budgets, waves and the second look of a rollout (rollouts)",
}
"""Hazards that no check looks for, and what answers them; in brackets the page of docs/ or docs/decisions/."""

NOT_COVERED: Mapping[Hazard, str] = {}
"""Hazards without an answer, and why; whoever adds a check for one deletes its line."""
