"""Checks of what the kubelet's start meets on its host: units, filesystems and cgroups."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.COMMAND_LINE_DRIFTED,), acceptable=False)
def units_are_as_loaded(facts: Readiness) -> Iterator[Finding]:
    """The unit files are those that systemd has loaded, so that what starts is what was examined."""
    for unit in facts.units:
        if unit.needs_reload:
            detail = (
                f"the files of {unit.name} were changed after systemd read them, so that it would start in another way "
                "than it runs now; run `systemctl daemon-reload`, and restart it if the change is meant"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(Reason.PROGRAM_NOT_REPLACEABLE, acceptable=False)
def files_can_be_changed(facts: Readiness) -> Iterator[Finding]:
    """No file that has to be replaced is immutable or on a filesystem that is mounted read-only."""
    for path in facts.read_only:
        detail = f"{path} is on a filesystem that is mounted read-only; remount it, or exclude the node"
        yield Finding(reason=Reason.PROGRAM_NOT_REPLACEABLE, detail=detail)
    for path in facts.unchangeable:
        detail = f"{path} has the attribute immutable or append-only; take it away: chattr -ia {path}"
        yield Finding(reason=Reason.PROGRAM_NOT_REPLACEABLE, detail=detail)


@check(
    Reason.POD_CGROUP_MOVES,
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.CGROUP_DRIVER_FROM_RUNTIME, history.CGROUP_V1_REFUSED),
    covers=(Hazard.CGROUP_DRIVER_CHANGES, Hazard.CGROUP_V1_REFUSED),
)
def cgroups_stay_where_they_are(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet uses the cgroup driver that the pods were started with, and runs on the node's cgroup version.

    From 1.31 on a kubelet takes the driver from the runtime, if that reports one, and not from its own configuration.
    With another driver it finds no pod's cgroup, and kills every pod.
    """
    reported = facts.runtime.cgroup_driver if history.CGROUP_DRIVER_FROM_RUNTIME.applies_to(facts.target) else None
    driver = reported or facts.layout.cgroup_driver
    if facts.cgroup_driver is not None and driver != facts.cgroup_driver:
        source = f"{facts.runtime.name} says so" if reported else "its configuration says so"
        detail = (
            f"kubelet {facts.target} would use the cgroup driver {driver} ({source}), but pods were started with "
            f"{facts.cgroup_driver}, so it would kill all of them; make both say {facts.cgroup_driver}"
        )
        yield Finding(reason=Reason.POD_CGROUP_MOVES, detail=detail)
    refused = history.CGROUP_V1_REFUSED
    if not facts.cgroup_v2 and refused.applies_to(facts.target) and facts.layout.fails_on_cgroup_v1:
        detail = (
            f"kubelet {facts.target} does not start on cgroup v1 ({refused.reference}); "
            "set failCgroupV1: false in its configuration, or move the node to cgroup v2"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


CHECKS: tuple[Check[Readiness], ...] = (units_are_as_loaded, files_can_be_changed, cgroups_stay_where_they_are)
