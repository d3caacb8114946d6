"""Tests how the surroundings of a kubelet are gathered, without changing the node."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from nodeupgrade.node.checks.facts import PodCgroups
from nodeupgrade.node.checks.registry import preflight, warnings
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.builders.sound import WEB, readiness
from tests.builders.surrounded_host import FILES, GROUPS, POD, ROOT, Host, known


def test_what_is_found_on_a_sound_node_is_no_finding() -> None:
    host = Host(files={path: data for path, data in FILES.items() if path != "/proc/9/stat"})
    seen = known()
    seen = replace(seen, around=look_at_surroundings(host, seen))
    effects = len(host.node_itself.calls.effects)

    assert (preflight(seen), warnings(seen)) == ((), ())
    complete = ExpectedCgroups(controllers=("cpu", "cpuset", "hugetlb", "memory", "pids"), places={WEB.uid: POD})
    assert seen.around.cgroups == PodCgroups(
        base="/kubepods.slice", exists=True, complete=complete, limit=8 * 1024**3, used=3500
    )
    assert (seen.around.hostname, seen.around.filesystem) == ("node-a", "ext4")
    assert len(host.node_itself.calls.effects) == effects


@pytest.mark.parametrize(
    ("point", "kind", "remote"),
    [
        ("/usr", "nfs4", "nfs4"),
        ("/usr/bin", "cifs", "cifs"),
        ("/usr", "fuse.glusterfs", "fuse.glusterfs"),
        ("/usr", "fuse.fuse-overlayfs", ""),  # the root of a node of rootless kind
        ("/usr", "overlay", ""),
        ("/usr", "xfs", ""),
        ("/var/lib/kubelet/pods/1/volumes/v", "nfs4", ""),
    ],
)
def test_a_program_on_the_filesystem_of_another_machine_is_told(point: str, kind: str, remote: str) -> None:
    table = f"{ROOT}\n22 21 0:50 / {point} rw - {kind} server:/export rw\n"
    seen = known()

    found = look_at_surroundings(Host(files={**FILES, "/proc/1/mountinfo": table.encode()}), seen)

    assert found.remote_program == remote


def test_a_local_filesystem_upon_what_mounts_it_is_local() -> None:
    table = f"{ROOT}\n22 21 0:50 / /usr rw - autofs systemd-1 rw\n23 22 253:1 / /usr rw - ext4 /dev/vdb rw\n"

    found = look_at_surroundings(Host(files={**FILES, "/proc/1/mountinfo": table.encode()}), known())

    assert found.remote_program == ""


DPKG = "/var/lib/dpkg"
BY_DPKG: Mapping[str, bytes] = {
    f"{DPKG}/info/kubelet.list": b"/.\n/usr/bin/kubelet\n",
    f"{DPKG}/info/kubelet.md5sums": b"/usr/bin/kubelet\n",
    f"{DPKG}/status": b"Package: kubelet\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1.30.14-1.1\n",
}
BY_RPM: Mapping[str, bytes] = {
    "/var/lib/rpm/rpmdb.sqlite": b"SQLite format 3",
    "/etc/yum.repos.d/kubernetes.repo": b"[kubernetes]\nexclude=kubelet\n",
}


@pytest.mark.parametrize(
    ("files", "package"),
    [
        ({}, None),
        (BY_DPKG, Package(manager="dpkg", name="kubelet", version="1.30.14-1.1", architecture="amd64", held=True)),
        ({f"{DPKG}/status": b"Package: bash\nStatus: install ok installed\n", **BY_RPM}, None),
        ({f"{DPKG}/status": b"\n", **BY_RPM}, Package(manager="rpm", name="kubelet", held=True)),
        (BY_RPM, Package(manager="rpm", name="kubelet", held=True)),
    ],
    ids=["no package manager", "dpkg", "rpm beside dpkg", "dpkg without packages", "rpm"],
)
def test_the_package_of_the_kubelet_is_found_without_running_anything(
    files: Mapping[str, bytes], package: Package | None
) -> None:
    host, seen = Host(files={**FILES, **files}), known()
    assert seen.kubelet.program == "/usr/bin/kubelet"
    assert look_at_surroundings(host, seen).package == package
    assert not host.node_itself.calls.effects


@pytest.mark.parametrize(
    ("by_rpm", "found"),
    [
        (None, (Package(manager="rpm", name="kubelet", held=True), True)),
        ({}, (None, False)),
        ({"/usr/bin/kubelet": ("kubelet",)}, (Package(manager="rpm", name="kubelet", held=True), False)),
        ({"/bin/kubelet": ("kubernetes-node",)}, (Package(manager="rpm", name="kubernetes-node"), False)),
        ({"/usr/bin/kubelet": ("kubelet", "other")}, (Package(manager="rpm", name="other"), False)),
    ],
    ids=["not asked", "a copy", "a package", "a package that lists it under its other name", "two packages"],
)
def test_rpm_is_asked_whose_the_kubelet_is(
    by_rpm: Mapping[str, tuple[str, ...]] | None, found: tuple[Package | None, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(files={**FILES, **BY_RPM})
    host.node_itself.packages.by_rpm = by_rpm
    real = host.files.real
    merged = {"/bin/kubelet": PurePosixPath("/usr/bin/kubelet")}
    monkeypatch.setattr(host.files, "real", lambda path: merged.get(str(path), real(path)))

    seen = look_at_surroundings(host, known())

    assert (seen.package, seen.package_assumed) == found


def test_units_that_install_kubelets_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    real = host.services.status

    def status(name: str) -> UnitStatus:
        there = "/lib/systemd/system/kops-configuration.service" if name == "kops-configuration.service" else ""
        return replace(real(name), fragment_path=there)

    monkeypatch.setattr(host.services, "status", status)

    assert look_at_surroundings(host, known()).installers == ("kops-configuration.service",)


def test_a_node_that_shows_nothing_is_no_finding() -> None:
    host, seen = Host(files={}), known(readiness=readiness(cgroup_driver=None))

    assert look_at_surroundings(host, seen).cgroups is None
    assert preflight(replace(seen, around=look_at_surroundings(host, seen))) == ()


def test_a_daemon_is_what_init_has_adopted() -> None:
    assert look_at_surroundings(Host(), known()).daemons == ("gluster (fs) d (9)",)


def test_a_daemon_is_found_in_the_hierarchy_of_systemd() -> None:
    files = {
        f"{GROUPS}/systemd/system.slice/kubelet.service/cgroup.procs": b"9\n", "/proc/9/stat": FILES["/proc/9/stat"],
    }  # fmt: skip

    assert [daemon.split()[-1] for daemon in look_at_surroundings(Host(files=files), known()).daemons] == ["(9)"]
