"""Tests how the package that owns the kubelet is determined."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.host.packages.ownership import assumed_owners, owner_by_dpkg, owner_by_rpm
from tests.builders.kubelet_package import KUBELET, USUAL

INFO = PurePosixPath("/var/lib/dpkg/info")
LIST = b"/.\n/usr\n/usr/bin\n/usr/bin/kubelet\n/usr/share/doc/kubelet/changelog.gz\n"


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
