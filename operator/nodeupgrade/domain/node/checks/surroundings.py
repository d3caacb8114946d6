"""Checks of what surrounds a kubelet on its host: cgroups, units, processes, its name, and the network."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import assert_never

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.domain.check import Found, check
from nodeupgrade.domain.hazards import Finding, Hazard, named
from nodeupgrade.domain.node.checks.facts import OLDEST_SYSTEMD, NodeFacts
from nodeupgrade.domain.node.checks.placement import MEMORY, reserved, shown, units
from nodeupgrade.domain.node.cluster import ahead
from nodeupgrade.domain.node.packages import DPKG, PROGRAM, DpkgState, Package
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.settings import Configured


def holds_package(facts: NodeFacts) -> bool:
    """Report whether the run sees to it that the package of the kubelet is held."""
    package = facts.around.package
    return facts.spec.kubelet.package is PackagePolicy.HOLD and package is not None and package.manager == DPKG


TOLERATED = timedelta(minutes=1)
OUTSIDE = frozenset({"", "external"})
"""Cloud providers with which a kubelet names its node after the host."""


@check(Reason.STOPS_WITH_KUBELET, Hazard.UNITS_BOUND, Hazard.MOUNT_HELPERS_KILLED)
def nothing_else_stops(facts: NodeFacts) -> Iterator[Found]:
    """No service stops with the kubelet, and no daemon that it started, such as one that serves a mount, ends with it.

    Children of the kubelet do not count: it waits for them, and starts them again.
    """
    if facts.around.bound:
        detail = f"{', '.join(facts.around.bound)} would stop together with {facts.kubelet.unit.name}"
        remedy = "remove that dependency (PartOf, BindsTo, Requires or PropagatesStopTo), or stop it first"
        yield Finding(reason=Reason.STOPS_WITH_KUBELET, detail=detail, remedy=remedy)
    if facts.around.daemons and facts.around.ends_all:
        detail = (
            f"{named(facts.around.daemons)} runs in the cgroup of {facts.kubelet.unit.name} and would end with it, and "
            "with it what it serves, such as a FUSE mount of a pod"
        )
        remedy = "delete the pods that use it, or set KillMode=process in the unit"
        yield Finding(reason=Reason.STOPS_WITH_KUBELET, detail=detail, remedy=remedy)


@check(
    Reason.UNSUPPORTED_SERVICE_MANAGER,
    Hazard.KUBELET_NOT_A_SERVICE,
    acceptable=False,
    remedy="upgrade the operating system",
)
def systemd_is_new_enough(facts: NodeFacts) -> Iterator[Found]:
    """Systemd is of version 219 at least, so that it heeds what keeps anybody from starting the kubelet meanwhile."""
    if facts.around.systemd < OLDEST_SYSTEMD:
        yield f"systemd {facts.around.systemd} runs, which is older than {OLDEST_SYSTEMD}"


@check(
    Reason.CONFIGURATION_DRIFT,
    Hazard.NODE_IDENTITY_CHANGES,
    remedy="give the host its former name, or set --hostname-override",
)
def kubelet_keeps_its_name(facts: NodeFacts) -> Iterator[Found]:
    """The kubelet would register under the Node's name, which it takes from --hostname-override or from the host.

    Under another name it would find no pod of its own, and kill all that run.
    """
    override = facts.settings.flag("hostname-override") or ""
    name, registered = (
        (override or facts.around.hostname).strip().lower(),
        (facts.node.get("metadata") or {}).get("name"),
    )
    if (facts.settings.flag("cloud-provider") or "") not in OUTSIDE or not name or name == registered:
        return
    source = "--hostname-override" if override else "the host"
    yield f"the kubelet would register as {name}, the name that {source} gives it now, but its Node is {registered}"


@check(Reason.CLOCK_SKEW, Hazard.NODE_UNDER_PRESSURE)
def clock_is_right(facts: NodeFacts) -> Iterator[Found]:
    """The node's clock is that of the API server, give or take a minute."""
    off = ahead(facts.node)
    if off is not None and abs(off) > TOLERATED:
        where = "ahead of" if off > timedelta() else "behind"
        yield (
            f"the node's clock is {int(abs(off).total_seconds())} s {where} that of the API server: a kubelet that "
            "starts opens its connections anew, and may find certificates expired, or not valid yet, with which it "
            "has worked"
        )


@check(Reason.NODE_IN_OTHER_HANDS, Hazard.ACTORS_REACT)
def nobody_else_changes_the_node(facts: NodeFacts) -> Iterator[Found]:
    """No unattended upgrade of packages is at work, which might exchange programs or restart services."""
    if facts.around.package_jobs:
        yield f"{', '.join(facts.around.package_jobs)} runs and may exchange programs or restart services meanwhile"


INSTALLERS: Mapping[str, str] = {
    "kops-configuration.service": "set kubernetesVersion in the kOps cluster before the node boots",
    "gardener-node-agent.service": "set the version in the Gardener shoot, and leave the node to Gardener",
    "cloud-config-downloader.service": "set the version in the Gardener shoot, and leave the node to Gardener",
    "kube-node-installation.service": "set the version in the metadata of the machine before it boots",
}
"""Units of distributions that install the version that somebody else has on record, and what to do there."""


@check(Reason.NODE_IN_OTHER_HANDS, Hazard.ACTORS_REACT, warns=True)
def nobody_installs_another_kubelet(facts: NodeFacts) -> Found | None:
    """No unit of a distribution would install another kubelet, whose start would restart what hashes differently."""
    if not facts.around.installers:
        return None
    detail = (
        f"{named(facts.around.installers)} installs the kubelet that its distribution has on record, at each boot or "
        "sooner, and its start would restart what it hashes differently"
    )
    remedy = "; ".join(INSTALLERS[name] for name in facts.around.installers)
    return Finding(reason=Reason.NODE_IN_OTHER_HANDS, detail=detail, remedy=remedy, severity=Severity.WARN)


@check(Reason.IPTABLES_CHAINS_GONE, Hazard.IPTABLES_CHAINS_GONE, history.MARKING_CHAINS_GONE)
def chains_are_not_missed(facts: NodeFacts) -> Iterator[Found]:
    """No network plugin refers to a chain that only the old kubelet creates; kube-proxy creates it too."""
    change = history.MARKING_CHAINS_GONE
    kept = facts.gates.get("IPTablesOwnershipCleanup") is False
    if (
        facts.around.marking
        and not kept
        and change.begins_between(facts.current, facts.target)
        and not _has_proxy(facts)
    ):
        yield (
            f"{named(facts.around.marking)} refers to KUBE-MARK-MASQ, which kubelet {facts.target} does not create "
            f"({change.reference}), nor does a kube-proxy on the node: it is gone after the next restart of the node"
        )


def _has_proxy(facts: NodeFacts) -> bool:
    running = (pod for pod in facts.pods if not pod.finished)
    return any("kube-proxy" in str(container.spec.get("image")) for pod in running for container in pod.containers)


RELOAD = "delete the pod first, and find out what took it away (a `systemctl daemon-reload` may, kubernetes #128397)"


@check(Reason.POD_CGROUP_MOVES, Hazard.CGROUP_CONTROLLER_MISSING)
def pods_have_their_controllers(facts: NodeFacts) -> Iterator[Found]:
    """Every running pod has a cgroup with all controllers that kubelets need; a starting one kills other pods.

    A kubelet looks for a pod's cgroup before it does anything else for the pod. On cgroup v2 a cgroup counts only with
    the controllers cpu, cpuset, memory, hugetlb and pids, on v1 only if it exists in all of these hierarchies.
    """
    cgroups = facts.around.cgroups
    if cgroups is None:
        return
    if not cgroups.exists:
        yield (
            f"there is no cgroup {cgroups.base}, in which a kubelet with the node's configuration looks for its pods, "
            "so it would find none of them and kill them all"
        )
        return
    for pod, missing in cgroups.incomplete.items():
        detail = f"its cgroup lacks {', '.join(missing)}, so that any kubelet that starts would kill it"
        yield Finding(reason=Reason.POD_CGROUP_MOVES, subject=pod, detail=detail, remedy=RELOAD)


@check(Reason.POD_CGROUP_MOVES, Hazard.CGROUP_LIMIT_BELOW_USAGE)
def limit_covers_usage(facts: NodeFacts) -> Iterator[Found]:
    """The memory limit that the kubelet would set for all pods is not lowered below what they use.

    A kubelet sets this limit when it starts, and on cgroup v2 the kernel ends processes until the limit is met.
    """
    cgroups = facts.around.cgroups
    if cgroups is None or cgroups.used is None or not _enforces(facts.settings):
        return
    try:
        limit = _limit(facts)
    except ValueError as error:
        yield f"nobody can tell which memory limit the kubelet would set for all pods: {error}"
        return
    sinks = limit is not None and (cgroups.limit is None or limit < cgroups.limit)
    if limit is not None and sinks and cgroups.used > limit:
        before = "no limit" if cgroups.limit is None else shown(MEMORY, cgroups.limit)
        used, lowered = shown(MEMORY, cgroups.used), shown(MEMORY, limit)
        yield (
            f"the pods use {used} of memory under {before}, and a kubelet with the configuration on "
            f"disk (kubeReserved and systemReserved) would limit them to {lowered}, so the kernel would end some"
        )


def _enforces(settings: Configured) -> bool:
    """Report whether the kubelet sets a limit for all pods, as it does by default."""
    given = settings.flag("enforce-node-allocatable")
    listed = settings.document.get("enforceNodeAllocatable") if given is None else given.split(",")
    return listed is None or (isinstance(listed, list) and "pods" in listed)


def _limit(facts: NodeFacts) -> int | None:
    """Return the limit in bytes; ``None`` if the node does not say how much memory it has.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    capacity = ((facts.node.get("status") or {}).get("capacity") or {}).get(MEMORY)
    return None if capacity is None else units(MEMORY, str(capacity)) - reserved(facts.settings)[MEMORY]


@check(Reason.KUBELET_FROM_PACKAGE, Reason.NODE_IN_OTHER_HANDS)
def package_manager_leaves_the_kubelet(facts: NodeFacts) -> Iterator[Found]:
    """No package manager would put another kubelet in place: it belongs to no package, or that one is or can be held.

    ``kubelet.package: Ignore`` makes it a warning, ``Hold`` has the run hold the package where dpkg allows that. The
    file differs from its package after the upgrade in any case, which is said, too.
    """
    package = facts.around.package
    if package is None:
        return
    program = facts.kubelet.program
    owner = f"{program} belongs to package {package}"
    if facts.around.package_assumed:
        owner = f"rpm could not be asked whose {program} is, so that it is taken to belong to package {package}"
    if package.held:
        detail = f"{owner}, which is held; it will differ from what {package.manager} has on record"
        remedy = "install the package of the same version afterwards and hold it again, so that the records agree"
        yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, remedy=remedy, severity=Severity.WARN)
        return
    match facts.spec.kubelet.package:
        case PackagePolicy.HOLD:
            yield _holding(facts.around.dpkg, package, owner)
        case PackagePolicy.REFUSE | PackagePolicy.IGNORE as policy:
            severity = Severity.WARN if policy is PackagePolicy.IGNORE else None
            detail = f"{owner}, which is not held: its next upgrade or reinstallation puts another kubelet there"
            yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, severity=severity)
        case never:
            assert_never(never)


def _holding(dpkg: DpkgState | None, package: Package, owner: str) -> Finding:
    """Return that a run will hold the package, or why it cannot."""
    reason, unheld = Reason.KUBELET_FROM_PACKAGE, f"{owner}, which is not held"
    if package.manager != DPKG or dpkg is None:
        detail = f"{unheld}, and only packages of dpkg can be held by a run"
        return Finding(reason=reason, detail=detail, remedy=f"run dnf versionlock add {package.name}")
    if not package.version:
        detail = f"{unheld} and cannot be: dpkg lists its files, but does not have it on record as installed"
        return Finding(reason=reason, detail=detail, remedy="install the package anew")
    if dpkg.user:
        detail = f"{unheld} and cannot be now: {dpkg.user} works with the database of dpkg"
        return Finding(reason=Reason.NODE_IN_OTHER_HANDS, detail=detail)
    if dpkg.interrupted:
        detail = f"{unheld} and cannot be: dpkg was interrupted, so that what it has on record may not be true"
        return Finding(reason=reason, detail=detail, remedy="run dpkg --configure -a")
    if not dpkg.runs:
        detail = f"{unheld} and cannot be: there is no {PROGRAM} on the node"
        return Finding(reason=reason, detail=detail, remedy="set kubelet.package: Ignore")
    detail = f"{owner}, which will be held and stays held (apt-mark unhold {package.specific} takes it back)"
    return Finding(reason=reason, detail=detail, remedy="", severity=Severity.WARN)
