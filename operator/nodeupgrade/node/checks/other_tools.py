"""Checks of other tools that may exchange the kubelet or change the node: packages, and what distributions install."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.host.packages.dpkg_database import DPKG, PROGRAM, DpkgState, Package


def holds_package(facts: NodeFacts) -> bool:
    """Report whether the run sees to it that the package of the kubelet is held."""
    package = facts.around.package
    return facts.spec.kubelet.package is PackagePolicy.HOLD and package is not None and package.manager == DPKG


@check(Reason.CONFLICTING_NODE_OPERATION, Hazard.ACTORS_REACT)
def nobody_else_changes_the_node(facts: NodeFacts) -> Iterator[Found]:
    """No unattended upgrade of packages is at work, which might exchange programs or restart services."""
    if jobs := facts.around.package_jobs:
        yield f"{', '.join(jobs)} is running and may replace programs or restart services (needrestart)"


UPDATERS = ("zincati.service", "locksmithd.service", "rebootmgr.service", "yum-cron.service")
"""Units that are active all the time, and begin an upgrade of packages or a boot at a time of their own choice."""


@check(Reason.CONFLICTING_NODE_OPERATION, Hazard.ACTORS_REACT, warns=True)
def nobody_may_begin_an_upgrade(facts: NodeFacts) -> Found | None:
    """No service is active that may restart the runtime or the node at any time, also during a run."""
    if not facts.around.updaters:
        return None
    detail = f"{named(facts.around.updaters)} may restart the runtime or the node at any time, also during a run"
    remedy = f"stop it for the upgrade: systemctl stop {' '.join(facts.around.updaters)}"
    return Finding(reason=Reason.CONFLICTING_NODE_OPERATION, detail=detail, remedy=remedy)


INSTALLERS: Mapping[str, str] = {
    "kops-configuration.service": "set kubernetesVersion in the kOps cluster before the node boots",
    "gardener-node-agent.service": "set the version in the Gardener shoot, and leave the node to Gardener",
    "cloud-config-downloader.service": "set the version in the Gardener shoot, and leave the node to Gardener",
    "kube-node-installation.service": "set the version in the metadata of the machine before it boots",
}
"""Units of distributions that install the version on record elsewhere, and what to do there."""


@check(Reason.CONFLICTING_NODE_OPERATION, Hazard.ACTORS_REACT, warns=True)
def nobody_installs_another_kubelet(facts: NodeFacts) -> Found | None:
    """No unit of a distribution would install another kubelet, whose start would restart what hashes differently."""
    if not facts.around.installers:
        return None
    detail = (
        f"{named(facts.around.installers)} installs the kubelet that its distribution has on record, at each boot or "
        "sooner, which would restart containers that it hashes differently"
    )
    remedy = "; ".join(INSTALLERS[name] for name in facts.around.installers)
    return Finding(reason=Reason.CONFLICTING_NODE_OPERATION, detail=detail, remedy=remedy, severity=Severity.WARN)


@check(Reason.KUBELET_FROM_PACKAGE, Reason.CONFLICTING_NODE_OPERATION)
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
        owner = f"rpm did not report who owns {program}, so it is assumed to belong to package {package}"
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
            detail = f"{owner}, which is not held: its next upgrade or reinstallation would replace the kubelet"
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
        return Finding(reason=reason, detail=detail, remedy="reinstall the package")
    if dpkg.user:
        detail = f"{unheld} and cannot be now: {dpkg.user} is using the database of dpkg"
        return Finding(reason=Reason.CONFLICTING_NODE_OPERATION, detail=detail)
    if dpkg.interrupted:
        detail = f"{unheld} and cannot be: dpkg was interrupted, so its records may not be correct"
        return Finding(reason=reason, detail=detail, remedy="run dpkg --configure -a")
    if not dpkg.runs:
        detail = f"{unheld} and cannot be: there is no {PROGRAM} on the node"
        return Finding(reason=reason, detail=detail, remedy="set kubelet.package: Ignore")
    detail = f"{owner}, which will be held and stays held (apt-mark unhold {package.specific} takes it back)"
    return Finding(reason=reason, detail=detail, remedy="", severity=Severity.WARN)
