"""A kubelet that a package manager would replace refuses its node, unless the package is held or that is accepted."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.findings.check import ask
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks.other_tools import package_manager_leaves_the_kubelet
from nodeupgrade.node.host.packages.dpkg import HELD, DpkgState, Package, record_of
from nodeupgrade.node.host.packages.ownership import assumed_owners, owner_by_dpkg, owner_by_rpm
from nodeupgrade.node.host.packages.rpm import rpm_owners
from tests.unit.domain.node.checks.start.test_surroundings import around

USUAL = PurePosixPath("/usr/bin/kubelet")
INFO = PurePosixPath("/var/lib/dpkg/info")
LIST = b"/.\n/usr\n/usr/bin\n/usr/bin/kubelet\n/usr/share/doc/kubelet/changelog.gz\n"


KUBELET = Package(manager="dpkg", name="kubelet", version="1.30.14-1.1", architecture="amd64")

DETAILS = "Architecture: amd64\nVersion: 1.30.14-1.1\nDescription: a\n Package: other\n"


def status(selection: str) -> bytes:
    stanzas = (
        "Package: kubectl\nStatus: hold ok installed\nVersion: 9\n",
        f"Package: kubelet\nStatus: {selection} ok installed\n{DETAILS}",
        "Package: kubernetes-cni\nStatus: install ok installed\n",
    )
    return "\n".join(stanzas).encode()


def by_dpkg(
    *, program: PurePosixPath = USUAL, listed: bytes = LIST, diversions: bytes = b"", selection: str = "install"
) -> Package | None:
    lists = [(INFO / "bash.list", b"/.\n/bin/bash\n/usr/bin/kubelet-old\n"), (INFO / "kubelet:amd64.list", listed)]
    return owner_by_dpkg(program, lists, diversions, status(selection))


@pytest.mark.parametrize("selection", ["install", "hold", "deinstall"])
def test_the_owner_and_whether_it_is_held_are_read_from_dpkg(selection: str) -> None:
    expected = KUBELET if selection != "hold" else replace(KUBELET, held=True)
    assert by_dpkg(selection=selection) == expected
    assert str(expected) == "kubelet 1.30.14-1.1 (dpkg)"


@pytest.mark.parametrize(
    ("program", "listed"),
    [("/usr/bin/kubelet", "/bin/kubelet"), ("/bin/kubelet", "/usr/bin/kubelet"), ("/bin/kubelet", "/bin/kubelet")],
)
def test_on_a_merged_usr_both_names_are_one(program: str, listed: str) -> None:
    assert by_dpkg(program=PurePosixPath(program), listed=f"/.\n{listed}\n".encode()) is not None


def test_what_no_package_installs_there_belongs_to_none() -> None:
    assert by_dpkg(program=PurePosixPath("/usr/local/bin/kubelet")) is None
    assert by_dpkg(program=PurePosixPath("/usr/bin/kube")) is None
    assert by_dpkg(diversions=b"/usr/bin/kubelet\n/usr/bin/kubelet.distrib\n:\n") is None
    assert by_dpkg(diversions=b"/bin/sh\n/usr/bin/kubelet\ndash\n") is not None, "something else was diverted"


def test_a_package_that_is_not_on_record_is_not_held() -> None:
    package = owner_by_dpkg(USUAL, [(INFO / "node.list", LIST)], b"", status("hold"))
    assert package == Package(manager="dpkg", name="node")


LOCKS = {
    "dnf versionlock": "# Added lock\nkubelet-0:1.30.14-150500.1.1.*\n",
    "yum versionlock": "0:kubelet-1.30.14-150500.1.1.*\n",
    "versionlock, dnf 5": 'version = "1.0"\n[[packages]]\nname = "kubelet"\n',
    "a repository's exclusions": "[kubernetes]\nname=Kubernetes\nexclude=kubelet kubeadm cri-tools\n",
    "exclusions by pattern": "[main]\nexcludepkgs = kube*\n",
    "exclusion of everything": "[main]\nexclude=*\n",
}
NO_LOCKS = {
    "nothing": "",
    "another package": "kubectl-0:1.30.14-1.*\n",
    "a package whose name begins alike": "kubelet-tools-0:1-1.*\n",
    "an exclusion from the lock": "!kubelet-0:1.30.14-1.*\n",
    "a repository's own name": "[kubelet]\nname=kubelet\n",
    "a comment": "# kubelet-0:1.30.14-1.*\n#exclude=kubelet\n",
}


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_locks_of_rpm_are_known(lock: str) -> None:
    package = owner_by_rpm(("kubelet",), [b"[main]\ngpgcheck=1\n", lock.encode()])
    assert package is not None
    assert package.held


@pytest.mark.parametrize("lock", NO_LOCKS.values(), ids=NO_LOCKS)
def test_what_is_no_lock_holds_nothing(lock: str) -> None:
    assert owner_by_rpm(("kubelet",), [lock.encode()]) == Package(manager="rpm", name="kubelet")


@pytest.mark.parametrize("program", ["/usr/local/bin/kubelet", "/opt/bin/kubelet", "/var/lib/kubelet/kubelet"])
def test_what_lies_elsewhere_is_not_assumed_to_be_of_rpm(program: str) -> None:
    assert assumed_owners(PurePosixPath(program)) == ()
    assert assumed_owners(USUAL) == ("kubelet",)


@pytest.mark.parametrize(
    ("status", "output", "owners"),
    [
        (0, "kubelet\n", ("kubelet",)),
        (0, "kubelet\nkubernetes1.30-node\n", ("kubelet", "kubernetes1.30-node")),
        (1, "file /usr/bin/kubelet is not owned by any package\n", ()),
        (1, "file /usr/bin/kube is not owned by any package\n", None),
        (0, "file /usr/bin/kubelet is not owned by any package\n", None),
        (1, "", None),
        (1, "error: cannot open Packages database in /var/lib/rpm\n", None),
        (127, "chroot: failed to run command 'rpm'\n", None),
        (0, "", None),
    ],
)
def test_only_a_plain_answer_of_rpm_counts(status: int, output: str, owners: tuple[str, ...] | None) -> None:
    assert rpm_owners(USUAL, status, output) == owners


def test_that_nobody_owns_a_file_counts_only_if_rpm_could_read_its_database() -> None:
    said = "file /usr/bin/kubelet is not owned by any package\n"
    complained = "error: cannot open Packages database in /var/lib/rpm\n"

    assert rpm_owners(USUAL, 1, said, complained) is None
    assert rpm_owners(USUAL, 1, said, "warning: Converting database from bdb_ro to sqlite backend\n") == ()
    assert rpm_owners(USUAL, 0, "kubelet\n", complained) == ("kubelet",)


def test_an_owner_that_is_assumed_is_called_so() -> None:
    around_it = around(program=str(USUAL), package=RPM, package_assumed=True, package_policy=PackagePolicy.REFUSE)

    [finding] = ask((package_manager_leaves_the_kubelet,), around_it)

    assert finding.forbids
    assert "rpm could not be asked whose /usr/bin/kubelet is, so that it is taken to belong" in finding.detail


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
        (KUBELET, DpkgState(user="apt-get (process 7)"), Reason.NODE_IN_OTHER_HANDS, "apt-get (process 7) works with"),
        (KUBELET, DpkgState(user="dpkg", interrupted=True), Reason.NODE_IN_OTHER_HANDS, "dpkg works with"),
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


def test_of_several_architectures_the_installed_one_counts() -> None:
    """A package may be there for two architectures, and leave its configuration behind where it was removed."""
    stanzas = (
        "Package: kubelet\nStatus: deinstall ok config-files\nArchitecture: i386\nVersion: 1",
        "Package: kubelet\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 2",
        "Package: kubelet\nStatus: install ok half-configured\nArchitecture: arm64\nVersion: 3",
    )
    text = "\n\n".join(stanzas).encode()

    found = [record_of(text, "kubelet", architecture) for architecture in ("", "amd64", "arm64", "i386")]
    assert [each and (each.selection, each.version) for each in found] == [
        *[(HELD, "2")] * 2, ("install", "3"), None,
    ]  # fmt: skip
    assert record_of(text, "kube") is None


@given(st.binary(), st.sampled_from(["kubelet", ""]))
def test_whatever_the_list_of_packages_holds_it_is_read_or_has_no_such_package(text: bytes, name: str) -> None:
    for status in (text, b"Package: kubelet\n" + text, b"Package: kubelet\nStatus:" + text):
        found = record_of(status, name)
        assert found is None or found.selection.strip() == found.selection
