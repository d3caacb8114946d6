"""Tests the files as the new kubelet will find them, on a directory with real symbolic links."""

from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.facts.files_after import FilesAfter
from nodeupgrade.node.host.files.host_files import HostFiles

NEW, LATER = b"new", b"later"
P = PurePosixPath


@pytest.fixture
def after(tmp_path: Path) -> FilesAfter:
    """A node with links to a file that is exchanged, and to the directory of one that is not there yet."""
    for directory in ("etc/kubernetes/conf.d", "var/lib/kubelet", "opt"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "etc/kubernetes/kubelet.yaml").write_bytes(b"old")
    (tmp_path / "etc/kubernetes/conf.d/00.conf").write_bytes(b"kept")
    (tmp_path / "var/lib/kubelet/config.yaml").symlink_to("/etc/kubernetes/../kubernetes/kubelet.yaml")
    (tmp_path / "etc/kubernetes/conf.d/50.conf").symlink_to("../kubelet.yaml")
    (tmp_path / "opt/conf.d").symlink_to("/etc/kubernetes/conf.d")
    changed = {"/etc/kubernetes/kubelet.yaml": NEW, "/etc/kubernetes/conf.d/10.conf": LATER}
    return FilesAfter(HostFiles(tmp_path), changed)


@pytest.mark.parametrize(
    "name", ["/etc/kubernetes/kubelet.yaml", "/var/lib/kubelet/config.yaml", "/opt/conf.d/50.conf"], ids=str
)
def test_a_file_is_new_under_each_of_its_names(after: FilesAfter, name: str) -> None:
    assert (after.read(P(name)), after.size(P(name))) == (NEW, 3)
    assert after.digest(P(name)) == after.digest(P("/etc/kubernetes/kubelet.yaml"))
    assert after.real(P(name)) == P("/etc/kubernetes/kubelet.yaml")


def test_a_file_that_comes_is_listed_in_each_of_its_directories(after: FilesAfter) -> None:
    for directory in (P("/opt/conf.d"), P("/etc/kubernetes/conf.d")):
        names = [directory / name for name in ("00.conf", "10.conf", "50.conf")]
        assert [*after.walk(directory)] == [*after.walk(directory, deep=False)] == names
        assert not {*after.walk(directory.parent, deep=False)} & {*names}
        assert [after.read(name) for name in names] == [b"kept", LATER, NEW]
        assert set(after.list(directory)) >= {*names[:2]}
        assert after.real(directory / "10.conf") == P("/etc/kubernetes/conf.d/10.conf")


def test_others_stay_as_they_are(after: FilesAfter) -> None:
    assert after.new(P("/etc/kubernetes/conf.d/00.conf")) is None
    assert after.read(P("/etc/kubernetes/none")) is None
