"""Tests the checks of package managers and other tools that change a node."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.findings.check import ask
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks import other_tools
from nodeupgrade.node.checks.other_tools import package_manager_leaves_the_kubelet
from nodeupgrade.node.host.packages.dpkg_database import DpkgState, Package
from tests.builders.kubelet_package import KUBELET, USUAL
from tests.builders.surroundings_cases import WARNINGS, around


@pytest.mark.parametrize("name", other_tools.INSTALLERS)
def test_who_would_install_another_kubelet_is_named_with_what_to_do(name: str) -> None:
    (finding,) = ask(WARNINGS, around(installers=(name,)))

    assert (finding.reason, finding.forbids) == (Reason.CONFLICTING_NODE_OPERATION, False)
    assert name in finding.detail
    assert other_tools.INSTALLERS[name] in finding.message


def test_who_may_begin_an_upgrade_is_named_with_what_to_do() -> None:
    (finding,) = ask(WARNINGS, around(updaters=("zincati.service", "yum-cron.service")))

    assert (finding.reason, finding.forbids) == (Reason.CONFLICTING_NODE_OPERATION, False)
    assert "systemctl stop zincati.service yum-cron.service" in finding.message


def test_an_owner_that_is_assumed_is_called_so() -> None:
    around_it = around(program=str(USUAL), package=RPM, package_assumed=True, package_policy=PackagePolicy.REFUSE)

    [finding] = ask((package_manager_leaves_the_kubelet,), around_it)

    assert finding.forbids
    assert "rpm did not report who owns /usr/bin/kubelet, so it is assumed to belong" in finding.detail


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("policy", PackagePolicy)
def test_only_a_package_that_may_change_forbids(held: bool, policy: PackagePolicy) -> None:
    (finding,) = _asked(replace(KUBELET, held=held), policy=policy)
    assert finding.forbids is (not held and policy is PackagePolicy.REFUSE)
    assert "/usr/bin/kubelet belongs to package kubelet 1.30.14-1.1 (dpkg)" in finding.detail


RPM = Package(manager="rpm", name="kubelet")


@pytest.mark.parametrize(
    ("package", "dpkg", "reason", "says"),
    [
        (KUBELET, DpkgState(), None, "apt-mark unhold kubelet:amd64"),
        (replace(KUBELET, architecture="all"), DpkgState(), None, "apt-mark unhold kubelet takes"),
        (
            KUBELET,
            DpkgState(user="apt-get (process 7)"),
            Reason.CONFLICTING_NODE_OPERATION,
            "apt-get (process 7) is using",
        ),
        (KUBELET, DpkgState(user="dpkg", interrupted=True), Reason.CONFLICTING_NODE_OPERATION, "dpkg is using"),
        (KUBELET, DpkgState(interrupted=True), Reason.KUBELET_FROM_PACKAGE, "run dpkg --configure -a"),
        (KUBELET, DpkgState(runs=False), Reason.KUBELET_FROM_PACKAGE, "there is no /usr/bin/dpkg"),
        (replace(KUBELET, version=""), DpkgState(), Reason.KUBELET_FROM_PACKAGE, "not have it on record"),
        (RPM, None, Reason.KUBELET_FROM_PACKAGE, "run dnf versionlock add kubelet"),
    ],
)
def test_what_cannot_be_held_refuses_with_what_to_do(
    package: Package, dpkg: DpkgState | None, reason: Reason | None, says: str
) -> None:
    (finding,) = _asked(package, policy=PackagePolicy.HOLD, dpkg=dpkg)
    assert (finding.reason if finding.forbids else None) == reason
    assert says in finding.message


def _asked(
    package: Package,
    *,
    policy: PackagePolicy,
    dpkg: DpkgState | None = DpkgState(),  # noqa: B008 - frozen
) -> tuple[Finding, ...]:
    return ask(
        (package_manager_leaves_the_kubelet,),
        around(program=str(USUAL), package=package, package_policy=policy, dpkg=dpkg),
    )
