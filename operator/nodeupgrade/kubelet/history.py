"""Changes between releases of the kubelet and the API server: every change that this project depends on.

Use it to ask what a version does, for example `PROBES_KEPT.applies_to(target)`. No other module compares a version with
a number (tests/architecture/test_history.py). Changes that concern only hashes are in `kubelethash.changes`; those that
other modules need too are re-exported here. Changes of volumes are in `kubelet.volume_changes`, those of state files in
`kubelet.state.formats`, releases that are better not chosen in `kubelet.known_defects`.
`docs/generated/kubelet-history.md` is generated from all of these modules and names those that rely on each change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.kubelethash import KubeletVersion, changes
from nodeupgrade.kubelethash.changes import MinorChange, enhancement, issue, pull, reference

Release: TypeAlias = tuple[int, int]
"""Minor and patch of a Kubernetes 1.x release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange(MinorChange):
    """A change of the API server, from one minor on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDefect:
    """A defect of particular kubelet releases."""

    what: str  # the defect, as a sentence
    link: str  # the upstream issue or pull request
    # ranges as first and last affected release; the last one is `None` if there is no fix yet
    releases: tuple[tuple[Release, Release | None], ...]

    def affects(self, kubelet: KubeletVersion) -> bool:
        """Report whether a kubelet has the defect."""
        release = (kubelet.minor, kubelet.patch)
        return any(first <= release and (last is None or release <= last) for first, last in self.releases)

    @property
    def fixed_in(self) -> str:
        """The first release after the last affected one, for messages.

        Raises:
            ValueError: there is no fix yet.
        """
        last = self.releases[-1][1]
        if last is None:
            raise ValueError(f"not fixed: {self.what}")
        return f"1.{last[0]}.{last[1] + 1}"

    def fixed_after(self, kubelet: KubeletVersion) -> str:
        """The first release after an affected one that has the fix, for messages; empty if there is none yet."""
        release = (kubelet.minor, kubelet.patch)
        last = next((last for first, last in self.releases if first <= release and (last is None or release <= last)))
        return "" if last is None else f"1.{last[0]}.{last[1] + 1}"

    @property
    def reference(self) -> str:
        """The link in short form, for messages."""
        return reference(self.link)


# --- containers and their hashes: changes of kubelethash that other modules rely on ---------------------------------

SIDECARS = changes.SIDECARS
SIDECARS_COMPARED = changes.SIDECARS_COMPARED
RESOURCELESS_HASH = changes.RESOURCELESS_HASH
RESIZE_POLICY_ACTED_ON = changes.RESIZE_POLICY_ACTED_ON
STATIC_PODS_RESIZED = changes.STATIC_PODS_RESIZED

# --- what keeps a kubelet from starting ----------------------------------------------------------------------------

ALLOW_PRIVILEGED_REMOVED = MinorChange(
    what="The flag `--allow-privileged` is rejected.",
    link=pull(77820),
    first=15,
)
DOCKERSHIM_REMOVED = MinorChange(
    what="The dockershim is removed, and its flags are rejected.",
    link=enhancement(2221),
    first=24,
)
LOGGING_FLAGS_REMOVED = MinorChange(
    what="The flags of the logging library are rejected, except `--v` and `--vmodule`.",
    link=pull(112120),
    first=26,
)
CONTAINER_RUNTIME_FLAG_REMOVED = MinorChange(
    what="The flag `--container-runtime` is rejected.",
    link=pull(114017),
    first=27,
)
PAUSE_IMAGE_FLAG_REMOVED = MinorChange(
    what="The flag `--pod-infra-container-image` is rejected.",
    link=pull(133779),
    first=35,
)
CADVISOR_FLAGS_REMOVED = MinorChange(
    what="The flags that the kubelet once inherited from cAdvisor are rejected, except `--housekeeping-interval`.",
    link=pull(139870),
    first=37,
)
CRI_V1_REQUIRED = MinorChange(
    what="A runtime that does not serve CRI v1 is refused.",
    link=pull(110618),
    first=26,
)
CGROUP_V1_REFUSED = MinorChange(
    what="Without `failCgroupV1: false` the kubelet does not start on cgroup v1.",
    link=pull(134298),
    first=35,
)

LIMITED_SWAP_NEEDS_V2 = MinorChange(
    what="With `NodeSwap`, on by default, the kubelet does not start on cgroup v1 if `swapBehavior` is `LimitedSwap`.",
    link=pull(123738),
    first=30,
)
AWS_CLOUD_REMOVED = MinorChange(
    what="The built-in cloud provider `aws` is removed.",
    link=pull(115838),
    first=27,
)
CLOUDS_OFF = MinorChange(
    what="Built-in cloud providers are refused, unless `DisableCloudProviders` is turned off.",
    link=pull(117503),
    first=29,
)
CLOUDS_REMOVED = MinorChange(
    what="Of cloud providers, only `external` is accepted.",
    link=enhancement(2395),
    first=31,
)
CREDENTIAL_PROVIDERS = MinorChange(
    what="Credential providers for images are used without a feature gate.",
    link=pull(108847),
    first=24,
)
CREDENTIAL_PROVIDERS_STRICT = MinorChange(
    what="The configuration of credential providers may not have unknown fields.",
    link=pull(128062),
    first=32,
)
WATCHDOG = MinorChange(
    what="The kubelet reports to systemd's watchdog.",
    link=pull(127566),
    first=32,
)
IMAGE_PULLS_VERIFIED = MinorChange(
    what="Who may use an image that is on the node is verified by default (`KubeletEnsureSecretPulledImages`).",
    link=pull(135228),
    first=35,
)
IMAGE_INODES = MinorChange(
    what="The default of `evictionHard` contains `imagefs.inodesFree`.",
    link=pull(121834),
    first=30,
)
HUGE_PAGES_TAKEN_OFF = MinorChange(
    what="Memory that is set aside for huge pages does not count as available where pods are evicted for memory.",
    link=pull(138127),
    first=37,
)
EVENTS_UNLIMITED = MinorChange(
    what="`eventRecordQPS: 0` means no limit.",
    link=pull(117119),
    first=37,
)
MEMORY_QOS = MinorChange(
    what="Memory of containers is protected, and throttled by `memoryThrottlingFactor`, on cgroup v2 (`MemoryQoS`).",
    link=enhancement(2570),
    first=37,
)

# --- cgroups -------------------------------------------------------------------------------------------------------

CGROUP_DRIVER_FROM_RUNTIME = MinorChange(
    what="If the runtime reports its cgroup driver, that one is used instead of the configured one.",
    link=pull(125828),
    first=31,
)

# --- probes, and what the API shows of a node and its pods -----------------------------------------------------------

ALL_CONTAINERS_RESTART = MinorChange(
    what="The exit of a container may restart all containers of its pod, by a rule of the pod.",
    link=enhancement(5532),
    first=36,
)
STARTUP_PROBES = MinorChange(
    what="Startup probes run without a feature gate.",
    link=enhancement(950),
    first=18,
)
EXEC_PROBES_TIMED = MinorChange(
    what="An exec probe that exceeds its timeout fails.",
    link=pull(94115),
    first=20,
)
PROBES_KEPT = MinorChange(
    what="A kubelet keeps its probe results across a restart.",
    link=enhancement(4781),
    first=35,
)
NODE_STEADY = MinorChange(
    what="A starting kubelet reports its node only after it has queried its runtime.",
    link=pull(124430),
    first=31,
)
SIDECAR_STOPS_RESTARTS = ReleaseDefect(
    what="In a pod with a sidecar that has a startup probe, crashed containers are not restarted.",
    link=issue(136910),
    releases=(((35, 0), (35, 3)),),
)

# --- admission, which a kubelet repeats for every pod when it starts -------------------------------------------------

SIDECARS_BY_DEFAULT = MinorChange(
    what="Sidecars are admitted unless their feature gate is turned off.",
    link=enhancement(753),
    first=29,
)
OS_LABEL_COMPARED = MinorChange(
    what="A pod whose label `kubernetes.io/os` names another system is rejected.",
    link=pull(105292),
    first=23,
)
TAINTS_CHECKED = MinorChange(
    what="A pod that does not tolerate a NoExecute taint is rejected.",
    link=pull(101218),
    first=24,
)
APPARMOR_PROFILES_LOOKED_UP = MinorChange(
    what="A pod whose AppArmor profile is not loaded may be rejected; later this is left to the runtime.",
    link=pull(97966),
    first=4,
    last=26,
)

INIT_CONTAINERS_REMEMBERED = MinorChange(
    what="In a pod with a running container no init container runs again, even if the runtime has forgotten it.",
    link=pull(96572),
    first=21,
)
USER_NAMESPACES = MinorChange(
    what="Pods may have user namespaces, which the kubelet records in the directory of each pod.",
    link=enhancement(127),
    first=25,
)
USER_NAMESPACES_BY_DEFAULT = MinorChange(
    what="Pods may have user namespaces unless the feature gate is turned off.",
    link=enhancement(127),
    first=33,
)
GROUPS_POLICY_CHECKED = MinorChange(
    what="A pod with `supplementalGroupsPolicy: Strict` is rejected if the Node does not say that it supports it.",
    link=enhancement(3619),
    first=33,
)
STATIC_PODS_BY_THEMSELVES = MinorChange(
    what="Static pods that refer to objects of the API are not run.",
    link=pull(131837),
    first=34,
)
LABELS_READ_TOO_EARLY = ReleaseDefect(
    what="Pods are admitted before the Node has been read, by the labels that the kubelet itself sets.",
    link=pull(94087),
    releases=(((5, 0), (18, 15)), ((19, 0), (19, 7)), ((20, 0), (20, 2))),
)
SIDECAR_PORTS_IGNORED = ReleaseDefect(
    what="The host ports of sidecars do not count when pods are admitted.",
    link=pull(132040),
    releases=(((28, 0), (33, 5)),),
)
ENDED_PODS_ADMITTED = ReleaseDefect(
    what="Pods that have ended are admitted again; one that is rejected becomes Failed even if it had succeeded.",
    link=issue(126341),
    releases=(((22, 0), (28, 13)), ((29, 0), (29, 8)), ((30, 0), (30, 4)), ((31, 0), (31, 0))),
)


def _safe_sysctls(first: int, link: str, *names: str) -> dict[str, MinorChange]:
    return {name: MinorChange(what=f"The sysctl `{name}` is allowed.", link=link, first=first) for name in names}


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

# --- devices ---------------------------------------------------------------------------------------------------------

DEVICES_FORGOTTEN = ReleaseDefect(
    what="The device checkpoint of a kubelet before 1.20 is not read.",
    link=issue(102880),
    releases=(((20, 0), (21, 5)),),
)
DEVICE_PODS_REJECTED = ReleaseDefect(
    what="Running pods with devices are rejected when a kubelet starts.",
    link=issue(118559),
    releases=(((25, 10), (25, 13)), ((26, 5), (26, 8)), ((27, 2), (27, 5))),
)
DEVICES_ALLOCATED_ANEW = ReleaseDefect(
    what="Devices are reallocated for containers that do not run, such as completed init containers.",
    link=issue(138446),
    releases=(((25, 10), None),),
)
RESTARTED_NOT_FOUND = ReleaseDefect(
    what="A container that was restarted earlier is treated as not running, and loses its devices.",
    link=pull(135485),
    releases=(((25, 10), (34, 6)), ((35, 0), (35, 3))),
)

# --- the network -----------------------------------------------------------------------------------------------------

MARKING_CHAINS_GONE = MinorChange(
    what="The kubelet does not create the iptables chains `KUBE-MARK-MASQ` and `KUBE-MARK-DROP`.",
    link=pull(114472),
    first=27,
)

# --- API servers -----------------------------------------------------------------------------------------------------

THREE_MINORS_BEHIND = MinorChange(
    what="A kubelet may be three minors older than its API server, not just two.",
    link=enhancement(3935),
    first=25,
)
ENDPOINT_SLICES_MADE = ServerChange(
    what="The controllers create EndpointSlices by default; 1.17 serves the API, but has no objects.",
    link=enhancement(752),
    first=18,
)
ENDPOINT_SLICES_STABLE = ServerChange(
    what="EndpointSlices are served as `discovery.k8s.io/v1`.",
    link=enhancement(752),
    first=21,
)
WEBHOOKS_STABLE = ServerChange(
    what="Configurations of webhooks are served as `admissionregistration.k8s.io/v1`.",
    link=pull(79549),
    first=16,
)
DISRUPTION_BUDGETS_STABLE = ServerChange(
    what="PodDisruptionBudgets are served as `policy/v1`, in which an empty selector selects all pods.",
    link=pull(99290),
    first=21,
)
NODE_LIFECYCLE_CONDITIONS = ServerChange(
    what="Conditions of Nodes that say that a node is drained or maintained have well-known types (no controller reads "
    "them yet).",
    link=enhancement(5683),
    first=37,
)
CORDONED_NODES_SERVE = ServerChange(
    what="Load balancers of cloud providers keep cordoned nodes.",
    link=pull(90823),
    first=19,
)
ADMISSION_POLICIES = ServerChange(
    what="ValidatingAdmissionPolicies (for the readiness guard) are served as `admissionregistration.k8s.io/v1`.",
    link=enhancement(3488),
    first=30,
)
