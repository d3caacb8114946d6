"""Bringing files onto the node, beside those that they replace, and exchanging them there."""

import os
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import Refused
from nodeupgrade.node.agent.file_staging import remove_staged, stage
from nodeupgrade.node.host.files.files import EntryKind
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import file_exchange
from tests.doubles.node import SimulatedNode, plan_for

CONFIG = "/var/lib/kubelet/config.yaml"
ATTRIBUTE = "user.label"


def new(content: bytes = b"new", path: str = CONFIG, mode: int = 0o640) -> NewFile:
    return NewFile(path=path, mode=mode, digest=Digest(sha256(content).hexdigest()), source="a test", content=content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    at(tmp_path).write_bytes(b"old")
    at(tmp_path).chmod(0o600)
    return tmp_path


def planned(root: Path) -> tuple[Node, RunPlan]:
    """A node with these files, and a plan to exchange the configuration."""
    simulated = SimulatedNode(version="v1.30.14", pods=[])
    simulated.disk[CONFIG] = b"old"
    plan = plan_for(simulated, "v1.33.13", files=(new(),))
    return replace(simulated.ports, files=HostFiles(root)), plan


def at(root: Path, path: str = CONFIG) -> Path:
    return root / path.lstrip("/")


def tree(root: Path) -> dict[str, Any]:
    return {str(path.relative_to(root)): path.lstat().st_mode for path in root.rglob("*")}


def test_a_new_file_has_its_own_mode_and_the_attributes_of_the_old_one(root: Path) -> None:
    files = HostFiles(root)
    try:
        os.setxattr(at(root), ATTRIBUTE, b"kubelet_var_lib_t")
    except OSError:
        pytest.skip("the filesystem of the temporary directory keeps no extended attributes")

    node, plan = planned(root)
    stage(files, [new()])
    file_exchange.back_up(node, plan)
    file_exchange.install(node, plan.exchanged[0])

    assert (at(root).read_bytes(), at(root).stat().st_mode & 0o7777) == (b"new", 0o640)
    assert os.getxattr(at(root), ATTRIBUTE) == b"kubelet_var_lib_t"

    assert file_exchange.restore(node, plan.exchanged[0]) is None
    assert (at(root).read_bytes(), at(root).stat().st_mode & 0o7777) == (b"old", 0o600)
    assert os.getxattr(at(root), ATTRIBUTE) == b"kubelet_var_lib_t"


@pytest.mark.parametrize("back", [False, True])
def test_tidying_up_leaves_the_times_of_the_file_alone(root: Path, back: bool) -> None:
    """It happens once a kubelet runs with the file; a file that is newer than its kubelet has drifted."""
    files, (node, plan) = HostFiles(root), planned(root)
    stage(files, [new()])
    file_exchange.back_up(node, plan)
    file_exchange.install(node, plan.exchanged[0])
    if back:
        file_exchange.restore(node, plan.exchanged[0])
    before = at(root).stat().st_ctime_ns

    time.sleep(0.02)  # a clock tick of the filesystem
    for path in plan.temporary(keeping_old=False):
        files.remove(PurePosixPath(path))

    assert at(root).stat().st_ctime_ns == before
    assert at(root).stat().st_nlink == 1


def test_staging_again_is_as_good_as_once_and_forgetting_leaves_nothing(root: Path) -> None:
    files, before = HostFiles(root), tree(root)

    for content in (b"first", b"second"):
        stage(files, [new(content)])
    assert at(root, staged_path(CONFIG)).read_bytes() == b"second"
    remove_staged(files, [CONFIG, "/etc/kubernetes/never-staged"])

    assert tree(root) == before


def test_a_file_that_is_right_already_is_not_staged(root: Path) -> None:
    before = tree(root)

    stage(HostFiles(root), [new(b"old")])

    assert tree(root) == before


def link(root: Path) -> None:
    at(root).rename(root / "data/config.yaml")
    at(root).symlink_to("/data/config.yaml")


def hard_link(root: Path) -> None:
    (root / "data/other").hardlink_to(at(root))


def directory(root: Path) -> None:
    at(root).unlink()
    at(root).mkdir()


def no_directory(root: Path) -> None:
    at(root).unlink()
    at(root).parent.rmdir()


@pytest.mark.parametrize("defect", [link, hard_link, directory, no_directory])
def test_what_cannot_be_exchanged_is_refused_before_anything_is_written(root: Path, defect: Any) -> None:
    defect(root)
    before = tree(root)

    with pytest.raises(Refused) as refusal:
        stage(HostFiles(root), [new(path="/var/lib/first"), new()])

    assert refusal.value.finding.reason is Reason.FILE_NOT_REPLACEABLE
    assert tree(root) == before


def test_a_link_on_the_way_is_seen(root: Path) -> None:
    at(root).parent.rename(root / "data/kubelet")
    at(root).parent.symlink_to("/data/kubelet")

    found = HostFiles(root).entry(PurePosixPath(CONFIG))

    assert found is not None
    assert (found.kind, found.real) == (EntryKind.FILE, PurePosixPath("/data/kubelet/config.yaml"))
    with pytest.raises(Refused):
        stage(HostFiles(root), [new()])
