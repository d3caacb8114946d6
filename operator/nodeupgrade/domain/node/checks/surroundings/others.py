"""Checks of what else runs on the host, and of the kubelet's own name."""

from collections.abc import Iterator
from datetime import timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.surroundings.facts import OLDEST_SYSTEMD, HostSurroundings
from nodeupgrade.domain.node.cluster.clock import ahead

TOLERATED = timedelta(minutes=1)
OUTSIDE = frozenset({"", "external"})
"""Cloud providers with which a kubelet names its node after the host."""


@check(Reason.STOPS_WITH_KUBELET, covers=(Hazard.UNITS_BOUND, Hazard.MOUNT_HELPERS_KILLED))
def nothing_else_stops(facts: HostSurroundings) -> Iterator[Finding]:
    """No service stops with the kubelet, and no daemon that it started, such as one that serves a mount, ends with it.

    Children of the kubelet do not count: it waits for them, and starts them again.
    """
    if facts.bound:
        detail = f"{', '.join(facts.bound)} would stop together with {facts.unit}"
        remedy = "remove that dependency (PartOf, BindsTo, Requires or PropagatesStopTo), or stop it first"
        yield Finding(reason=Reason.STOPS_WITH_KUBELET, detail=detail, remedy=remedy)
    if facts.daemons and facts.ends_all:
        daemons = [f"{daemon.name} ({daemon.pid})" for daemon in facts.daemons]
        detail = (
            f"{named(daemons)} runs in the cgroup of {facts.unit} and would end with it, and with it what it serves, "
            "such as a FUSE mount of a pod"
        )
        remedy = "delete the pods that use it, or set KillMode=process in the unit"
        yield Finding(reason=Reason.STOPS_WITH_KUBELET, detail=detail, remedy=remedy)


@check(Reason.UNSUPPORTED_SERVICE_MANAGER, covers=(Hazard.KUBELET_NOT_A_SERVICE,), acceptable=False)
def systemd_is_new_enough(facts: HostSurroundings) -> Iterator[Finding]:
    """Systemd is of version 219 at least, so that it heeds what keeps anybody from starting the kubelet meanwhile."""
    if facts.systemd < OLDEST_SYSTEMD:
        detail = f"systemd {facts.systemd} runs, which is older than {OLDEST_SYSTEMD}"
        yield Finding(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail, remedy="upgrade the operating system")


@check(Reason.CONFIGURATION_DRIFT, covers=(Hazard.NODE_IDENTITY_CHANGES,))
def kubelet_keeps_its_name(facts: HostSurroundings) -> Iterator[Finding]:
    """The kubelet would register under the Node's name, which it takes from --hostname-override or from the host.

    Under another name it would find no pod of its own, and kill all that run.
    """
    override = facts.settings.flag("hostname-override") or ""
    name, registered = (override or facts.hostname).strip().lower(), (facts.node.get("metadata") or {}).get("name")
    if (facts.settings.flag("cloud-provider") or "") not in OUTSIDE or not name or name == registered:
        return
    source = "--hostname-override" if override else "the host"
    detail = f"the kubelet would register as {name}, the name that {source} gives it now, but its Node is {registered}"
    remedy = "give the host its former name, or set --hostname-override"
    yield Finding(reason=Reason.CONFIGURATION_DRIFT, detail=detail, remedy=remedy)


@check(Reason.CLOCK_SKEW, covers=(Hazard.NODE_UNDER_PRESSURE,))
def clock_is_right(facts: HostSurroundings) -> Iterator[Finding]:
    """The node's clock is that of the API server, give or take a minute."""
    off = ahead(facts.node)
    if off is not None and abs(off) > TOLERATED:
        where = "ahead of" if off > timedelta() else "behind"
        detail = (
            f"the node's clock is {int(abs(off).total_seconds())} s {where} that of the API server: a kubelet that "
            "starts opens its connections anew, and may find certificates expired, or not valid yet, with which it "
            "has worked"
        )
        yield Finding(reason=Reason.CLOCK_SKEW, detail=detail)


@check(Reason.NODE_IN_OTHER_HANDS, covers=(Hazard.ACTORS_REACT,))
def nobody_else_changes_the_node(facts: HostSurroundings) -> Iterator[Finding]:
    """No unattended upgrade of packages is at work, which might exchange programs or restart services."""
    if facts.package_jobs:
        detail = f"{', '.join(facts.package_jobs)} runs and may exchange programs or restart services meanwhile"
        yield Finding(reason=Reason.NODE_IN_OTHER_HANDS, detail=detail)
