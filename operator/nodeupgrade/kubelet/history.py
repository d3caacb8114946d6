"""Changes between releases of the kubelet and the API server: every change that this project depends on.

Ask here for the behaviour of a version, for example `PROBES_KEPT.applies_to(target)`. No other module compares a
version with a number (tests/architecture/test_history.py). The order is: changes from `kubelethash.changes` that other
modules need too, flags and start of the kubelet, cgroup driver, restarts and probes, admission of pods, sysctls,
iptables, skew and API server, volumes, state files. Defects of particular releases are in `kubelet.known_defects`.
`docs/generated/kubelet-history.md` is generated from all of these modules and names those that rely on each change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.kubelethash import changes
from nodeupgrade.kubelethash.changes import MinorChange, enhancement, issue, pull


@dataclass(frozen=True, slots=True)
class ServerChange(MinorChange):
    """A change of the API server, from one minor on."""


SIDECARS = changes.SIDECARS
SIDECARS_COMPARED = changes.SIDECARS_COMPARED
RESOURCELESS_HASH = changes.RESOURCELESS_HASH
RESIZE_POLICY_ACTED_ON = changes.RESIZE_POLICY_ACTED_ON
STATIC_PODS_RESIZED = changes.STATIC_PODS_RESIZED
POD_RESOURCES_ALLOCATED = changes.POD_RESOURCES_ALLOCATED


REQUIRE_KUBECONFIG_REMOVED = MinorChange(10, pull(58367), "The flag `--require-kubeconfig` is rejected.")
CADVISOR_PORT_REMOVED = MinorChange(12, pull(65707), "The flag `--cadvisor-port` is rejected.")
PRIVILEGED_BY_DEFAULT = MinorChange(
    11, pull(63442), "Privileged pods run by default; before, a kubelet ends them without `--allow-privileged`."
)
ALLOW_PRIVILEGED_REMOVED = MinorChange(15, pull(77820), "The flag `--allow-privileged` is rejected.")
DOCKERSHIM_REMOVED = MinorChange(24, enhancement(2221), "The dockershim is removed, and its flags are rejected.")
LOGGING_FLAGS_REMOVED = MinorChange(
    26, pull(112120), "The flags of the logging library are rejected, except `--v` and `--vmodule`."
)
CONTAINER_RUNTIME_FLAG_REMOVED = MinorChange(27, pull(114017), "The flag `--container-runtime` is rejected.")
PAUSE_IMAGE_FLAG_REMOVED = MinorChange(35, pull(133779), "The flag `--pod-infra-container-image` is rejected.")
CADVISOR_FLAGS_REMOVED = MinorChange(
    37,
    pull(139870),
    "The flags that the kubelet once inherited from cAdvisor are rejected, except `--housekeeping-interval`.",
)
CRI_V1 = MinorChange(23, pull(106501), "The kubelet speaks CRI v1; before, it knows v1alpha2 only.")
CRI_V1_REQUIRED = MinorChange(26, pull(110618), "A runtime that does not serve CRI v1 is refused.")
RUNTIME_CONFIG_REQUIRED = MinorChange(
    38,
    pull(136731),
    "A runtime that does not report its cgroup driver (`RuntimeConfig`) is refused; announced by 1.37.",
)
CGROUP_V1_REFUSED = MinorChange(
    35, pull(134298), "Without `failCgroupV1: false` the kubelet does not start on cgroup v1."
)

LIMITED_SWAP_NEEDS_V2 = MinorChange(
    30,
    pull(123738),
    "With `NodeSwap`, on by default, the kubelet does not start on cgroup v1 if `swapBehavior` is `LimitedSwap`.",
)
AWS_CLOUD_REMOVED = MinorChange(27, pull(115838), "The built-in cloud provider `aws` is removed.")
CLOUDS_OFF = MinorChange(
    29, pull(117503), "Built-in cloud providers are refused, unless `DisableCloudProviders` is turned off."
)
CLOUDS_REMOVED = MinorChange(31, enhancement(2395), "Of cloud providers, only `external` is accepted.")
CREDENTIAL_PROVIDERS = MinorChange(24, pull(108847), "Credential providers for images are used without a feature gate.")
CREDENTIAL_PROVIDERS_STRICT = MinorChange(
    32, pull(128062), "The configuration of credential providers may not have unknown fields."
)
CREDENTIAL_PROVIDERS_TOKENS = MinorChange(
    33,
    enhancement(4412),
    "With `KubeletServiceAccountTokenForCredentialProviders`, the configuration of credential providers may have "
    "`tokenAttributes`.",
)
CREDENTIAL_PROVIDERS_TOKENS_BY_DEFAULT = MinorChange(
    34, enhancement(4412), "`tokenAttributes` may be used by default, and have to have `cacheType`."
)
WATCHDOG = MinorChange(32, pull(127566), "The kubelet reports to systemd's watchdog.")
IMAGE_PULLS_VERIFIED = MinorChange(
    35,
    pull(135228),
    "The kubelet verifies by default which pods may use an image on the node (`KubeletEnsureSecretPulledImages`).",
)
IMAGE_INODES = MinorChange(30, pull(121834), "The default of `evictionHard` contains `imagefs.inodesFree`.")
HUGE_PAGES_TAKEN_OFF = MinorChange(
    37,
    pull(138127),
    "Memory that is set aside for huge pages does not count as available where pods are evicted for memory.",
)
EVENTS_UNLIMITED = MinorChange(37, pull(117119), "`eventRecordQPS: 0` means no limit.")
MEMORY_QOS = MinorChange(
    37,
    enhancement(2570),
    "Memory of containers is protected, and throttled by `memoryThrottlingFactor`, on cgroup v2 (`MemoryQoS`).",
)


CGROUP_DRIVER_FROM_RUNTIME = MinorChange(
    31, pull(125828), "If the runtime reports its cgroup driver, that one is used instead of the configured one."
)


ALL_CONTAINERS_RESTART = MinorChange(
    36, enhancement(5532), "The exit of a container may restart all containers of its pod, by a rule of the pod."
)
CONTAINER_POLICIES = MinorChange(
    34,
    enhancement(5307),
    "With `ContainerRestartRules`, a container may have a restart policy of its own, and rules for its exit.",
)
CONTAINER_POLICIES_BY_DEFAULT = MinorChange(
    35, enhancement(5307), "Restart policies of containers are heeded unless their feature gate is turned off."
)
STARTUP_PROBES = MinorChange(18, enhancement(950), "Startup probes run without a feature gate.")
EXEC_PROBES_TIMED = MinorChange(
    20, pull(94115), "An exec probe that exceeds its timeout fails, unless `ExecProbeTimeout` is off."
)
GRPC_PROBES = MinorChange(24, enhancement(2727), "gRPC probes run, unless `GRPCContainerProbe` is off.")
RSA_EXCHANGE_GONE = MinorChange(
    30, pull(123217), "HTTPS probes do not offer RSA key exchange: the kubelet is built with Go 1.22, and its defaults."
)
TRIPLE_DES_GONE = MinorChange(
    32,
    pull(127611),
    "HTTPS probes neither offer 3DES nor take certificates with a negative serial number: the defaults of Go 1.23.",
)
SHORT_KEYS_REFUSED = MinorChange(
    33, enhancement(3744), "HTTPS probes refuse RSA keys of less than 1024 bits: the defaults of Go 1.24."
)
SHA1_REFUSED = MinorChange(
    35, pull(134120), "HTTPS probes do not offer SHA-1 signatures in TLS 1.2: the defaults of Go 1.25."
)
PROBES_KEPT = MinorChange(35, enhancement(4781), "A kubelet keeps its probe results across a restart.")
NODE_STEADY = MinorChange(
    31, pull(124430), "A starting kubelet reports its node only after it has queried its runtime."
)


SIDECAR_STORAGE_LIMITED = MinorChange(
    37, pull(138462), "A pod is evicted if one of its sidecars exceeds its limit of ephemeral storage."
)
SIDECARS_BY_DEFAULT = MinorChange(
    29, enhancement(753), "Sidecars are admitted unless their feature gate is turned off."
)
_LABELS = (
    (8, 47044, ("kubernetes.io/hostname", "beta.kubernetes.io/os", "beta.kubernetes.io/arch")),
    (8, 47044, ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")),
    (8, 47044, ("beta.kubernetes.io/instance-type",)),
    (14, 73333, ("kubernetes.io/os", "kubernetes.io/arch")),
    (17, 81431, ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")),
    (17, 82049, ("node.kubernetes.io/instance-type",)),
)
LABELS_PUT_BACK: Mapping[str, MinorChange] = {
    label: MinorChange(
        first, pull(number), f"A starting kubelet sets the label `{label}` of its Node again, if it has a value for it."
    )
    for first, number, labels in _LABELS
    for label in labels
}
"""Labels of an existing Node that a kubelet changes when it registers, by name."""
OS_LABEL_COMPARED = MinorChange(
    23, pull(105292), "A pod whose label `kubernetes.io/os` names another system is rejected."
)
TAINTS_CHECKED = MinorChange(24, pull(101218), "A pod that does not tolerate a NoExecute taint is rejected.")
TAINTS_COMPARED = MinorChange(
    35, enhancement(5471), "With `TaintTolerationComparisonOperators`, taints may be tolerated by `Gt` and `Lt`."
)
POD_RESOURCES_REJECTED = MinorChange(
    34, enhancement(2837), "A pod with resources of its own is rejected while `PodLevelResources` is off."
)
POD_RESOURCES_RESIZED = MinorChange(
    35,
    enhancement(5419),
    "With `InPlacePodLevelResourcesVerticalScaling`, resources of the pod itself may be resized.",
)
FEATURES_DECLARED = MinorChange(
    36, enhancement(5328), "A pod that needs a feature which the kubelet does not declare is rejected."
)
APPARMOR_PROFILES_LOOKED_UP = MinorChange(
    4,
    pull(97966),
    "A pod whose AppArmor profile is not loaded may be rejected; later this is left to the runtime.",
    last=26,
)
INIT_CONTAINERS_REMEMBERED = MinorChange(
    21,
    pull(96572),
    "In a pod with a running container no init container runs again, even if the runtime has forgotten it.",
)
USER_NAMESPACES = MinorChange(
    25, enhancement(127), "Pods may have user namespaces, which the kubelet records in the directory of each pod."
)
USER_NAMESPACES_BY_DEFAULT = MinorChange(
    33, enhancement(127), "Pods may have user namespaces unless the feature gate is turned off."
)
USER_IDS_LISTED = MinorChange(
    30,
    enhancement(127),
    "User namespaces have the IDs that `getsubids` lists for the host's user `kubelet`; with that user and without the"
    " program, or with too few IDs, the kubelet does not start.",
)
PODS_VALIDATED = MinorChange(
    5,
    pull(53194),
    "A pod that the kubelet's own validation rejects, as it does fields that came later, is ignored and ended.",
    last=8,
)
GROUPS_POLICY_CHECKED = MinorChange(
    33,
    enhancement(3619),
    "A pod with `supplementalGroupsPolicy: Strict` is rejected if the Node does not say that it supports it.",
)
STATIC_PODS_BY_THEMSELVES = MinorChange(34, pull(131837), "Static pods that refer to objects of the API are not run.")
UNMASKED_NEEDS_USERS = MinorChange(
    30, pull(123520), "Static pods with `procMount: Unmasked` are not run without `hostUsers: false`."
)
STRICT_ADDRESSES = MinorChange(
    36,
    pull(137053),
    "Static pods with IPv4 addresses that have leading zeros or are written as IPv6 are not run"
    " (`StrictIPCIDRValidation`).",
)
INIT_NOT_RESIZED = MinorChange(
    36, pull(137458), "Static pods with `resizePolicy: RestartContainer` in an init container are not run."
)


def _safe_sysctls(first: int, link: str, *names: str) -> dict[str, MinorChange]:
    return {name: MinorChange(first, link, f"The sysctl `{name}` is allowed.") for name in names}


SAFE_SYSCTLS: Mapping[str, MinorChange] = {
    **_safe_sysctls(
        4,
        enhancement(34),
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
    ),
    **_safe_sysctls(18, pull(85463), "net.ipv4.ping_group_range"),
    **_safe_sysctls(22, pull(103326), "net.ipv4.ip_unprivileged_port_start"),
    **_safe_sysctls(27, pull(115374), "net.ipv4.ip_local_reserved_ports"),
    **_safe_sysctls(29, pull(118846), "net.ipv4.tcp_keepalive_time"),
    **_safe_sysctls(
        29,
        pull(121240),
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    **_safe_sysctls(32, pull(127489), "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    **_safe_sysctls(37, pull(138389), "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}
"""Sysctls that kubelets allow by default, with the first minor certain to do so."""


MARKING_CHAINS_GONE = MinorChange(
    27, pull(114472), "The kubelet does not create the iptables chains `KUBE-MARK-MASQ` and `KUBE-MARK-DROP`."
)


THREE_MINORS_BEHIND = MinorChange(
    25, enhancement(3935), "A kubelet may be three minors older than its API server, not just two."
)
TOKENS_REQUESTED = MinorChange(
    12, pull(67349), "The kubelet requests a pod's token of its service account from the API server by default."
)
TOKENS_ONLY_ON_REQUEST = ServerChange(
    21, pull(95667), "Pods get tokens that kubelets request, not those in Secrets (`BoundServiceAccountTokenVolume`)."
)
ENDPOINT_SLICES_MADE = ServerChange(
    18, enhancement(752), "The controllers create EndpointSlices by default; 1.17 serves the API, but has no objects."
)
ENDPOINT_SLICES_STABLE = ServerChange(21, enhancement(752), "EndpointSlices are served as `discovery.k8s.io/v1`.")
WEBHOOKS_STABLE = ServerChange(
    16, pull(79549), "Configurations of webhooks are served as `admissionregistration.k8s.io/v1`."
)
DISRUPTION_BUDGETS_STABLE = ServerChange(
    21, pull(99290), "PodDisruptionBudgets are served as `policy/v1`, in which an empty selector selects all pods."
)
NODE_LIFECYCLE_CONDITIONS = ServerChange(
    37,
    enhancement(5683),
    "Conditions of Nodes that say that a node is drained or maintained have well-known types (no controller reads"
    " them yet).",
)
EVICTIONS_MARKED = ServerChange(
    26, enhancement(3329), "Pods that are evicted by a taint have the condition `DisruptionTarget`."
)
CORDONED_NODES_SERVE = ServerChange(19, pull(90823), "Load balancers of cloud providers keep cordoned nodes.")
ADMISSION_POLICIES = ServerChange(
    30,
    enhancement(3488),
    "ValidatingAdmissionPolicies (for the readiness guard) are served as `admissionregistration.k8s.io/v1`.",
)


BLOCK_VOLUMES_MOVED = MinorChange(
    17, pull(74026), "CSI drivers publish block volumes below a directory for each volume."
)
STAGED_VOLUMES_MOVED = MinorChange(
    24,
    pull(107065),
    "CSI drivers stage volumes in a directory that is named after driver and volume, not after the PV.",
)
_MIGRATIONS = (
    ("kubernetes.io/cinder", 21, 98538, "CSIMigrationOpenStack"),
    ("kubernetes.io/aws-ebs", 23, 106098, "CSIMigrationAWS"),
    ("kubernetes.io/gce-pd", 23, 104722, "CSIMigrationGCE"),
    ("kubernetes.io/azure-disk", 23, 104670, "CSIMigrationAzureDisk"),
    ("kubernetes.io/azure-file", 24, 105070, "CSIMigrationAzureFile"),
    ("kubernetes.io/vsphere-volume", 25, 103523, "CSIMigrationvSphere"),
    ("kubernetes.io/portworx-volume", 31, 125016, "CSIMigrationPortworx"),
)
CSI_MIGRATIONS: Mapping[str, MinorChange] = {
    plugin: MinorChange(first, pull(number), f"The CSI driver takes over volumes of the plugin `{plugin}` by default.")
    for plugin, first, number, _ in _MIGRATIONS
}
"""Plugins whose volumes a CSI driver takes over, by name."""
CSI_MIGRATION_GATES: Mapping[str, str] = {plugin: gate for plugin, _, _, gate in _MIGRATIONS}
"""Gates by which the migration of a plugin may be postponed."""

VOLUME_PLUGINS_REMOVED: Mapping[str, MinorChange] = {
    plugin: MinorChange(first, pull(number), f"The volume plugin `{plugin}` is removed.")
    for plugin, first, number in (
        ("kubernetes.io/scaleio", 22, 101685),
        ("kubernetes.io/flocker", 25, 111618),
        ("kubernetes.io/quobyte", 25, 111619),
        ("kubernetes.io/storageos", 25, 111620),
        ("kubernetes.io/glusterfs", 26, 112015),
        ("kubernetes.io/cephfs", 31, 124544),
        ("kubernetes.io/rbd", 31, 124546),
    )
}
"""Plugins that no CSI driver takes over by default, by name."""

GIT_REPO_OFF = MinorChange(
    33, pull(129923), "Volumes of the type `gitRepo` are not set up unless the gate `GitRepoVolumeDriver` is on."
)
IMAGE_VOLUMES = MinorChange(31, enhancement(4639), "With the gate `ImageVolume`, a volume may be an image.")
IMAGE_VOLUMES_BY_DEFAULT = MinorChange(
    35, enhancement(4639), "Volumes of the type `image` are set up unless their feature gate is turned off."
)
SELINUX_MOUNTED = MinorChange(
    37, pull(139956), "Under SELinux, volumes of every access mode are mounted with the label of their pod."
)
SELINUX_MOUNTED_RWOP = MinorChange(
    28, enhancement(1710), "Under SELinux, volumes of ReadWriteOncePod are mounted with the label of their pod."
)
SELINUX_COMPARED = MinorChange(
    32,
    enhancement(1710),
    "A volume of ReadWriteOncePod that containers of a pod label differently is not mounted, whatever its plugin.",
)
SELINUX_CHANGE_POLICY = MinorChange(
    33, enhancement(1710), "Volumes of pods with `seLinuxChangePolicy: Recursive` are mounted without a label."
)
CSI_PUBLISHED_AGAIN = MinorChange(
    20, pull(88759), "A kubelet that starts publishes mounted CSI volumes again, and applies `fsGroup` to their files."
)


CPU_STATE_V2 = MinorChange(18, pull(84462), "`cpu_manager_state` has a second format, which older kubelets refuse.")
CPU_STATE_V1_UNREAD = MinorChange(
    37,
    pull(139068),
    "`cpu_manager_state` is no longer read in its first format, which stays on disk while nothing is pinned.",
)
STATE_AS_TEXT = MinorChange(
    37,
    pull(139102),
    "The state of the CPU and memory managers is kept a second time, as text with a checksum of its own.",
)
MEMORY_MANAGER = MinorChange(21, enhancement(1769), "The kubelet has a memory manager, with a state file.")
MEMORY_BY_NODE = MinorChange(
    21,
    pull(127074),
    "The memory manager compares its state by NUMA node, not by groups of them, and may refuse what it wrote itself.",
    last=31,
)
DEVICE_CHECKPOINT_V1_UNREAD = MinorChange(
    31, pull(123398), "The device checkpoint of a kubelet before 1.20 is no longer read."
)
DEVICE_CHECKPOINT_V2 = MinorChange(20, issue(102880), "The device checkpoint has a second format.")
STATUS_STATE = MinorChange(
    27,
    enhancement(1287),
    "With `InPlacePodVerticalScaling`, the kubelet exits if it cannot read `pod_status_manager_state`.",
    last=32,
)
STATUS_STATE_CHANGED = MinorChange(
    32,
    pull(126620),
    "`pod_status_manager_state` has a new format; a kubelet that reads it exits if it finds the other one.",
)
POD_STATE = MinorChange(
    33,
    pull(130599),
    "With `InPlacePodVerticalScaling`, on by default, the kubelet exits if it cannot read `allocated_pods_state` "
    "or `actuated_pods_state`; it ignores fields that came later.",
)
POD_LEVEL_STATE = MinorChange(
    36,
    pull(137751),
    "With `PodLevelResourceManagers`, the state of the CPU and memory managers is in a format that others refuse.",
    last=36,
)
DRA_STATE_HANDLES = MinorChange(
    28,
    pull(119307),
    "`dra_manager_state` has the resource handles of claims; an older kubelet exits if it finds such a claim.",
)
DRA_STATE_EXTENDED = MinorChange(
    30,
    issue(123552),
    "Resource handles in `dra_manager_state` have one more field; a kubelet exits if it finds those of the other kind.",
)
DRA_STATE_CHANGED = MinorChange(
    31, issue(127653), "`dra_manager_state` has another format; the kubelet exits if it finds the old one."
)
DRA_BY_DEFAULT = MinorChange(
    34, enhancement(4381), "Dynamic resource allocation is on, unless its feature gate is turned off."
)
