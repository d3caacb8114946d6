"""Tests how CRI-O is installed in the lab, and how its images and Pods are created."""

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.runtimes import crio
from e2e.lab.runtimes.crio import PROGRAMS, VERSION, Crio
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node import cripods, wire


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODEUPGRADE_LAB_DOWNLOAD", "never")
    monkeypatch.setenv("NODEUPGRADE_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NODEUPGRADE_LAB_BINARIES", raising=False)


def test_where_it_cannot_be_had_that_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"put crio and pinns into the directory cri-o-{VERSION}"):
        Crio().complete(tmp_path)
    assert crio.why_not().startswith("there is no CRI-O")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base root that was completed with programs from a directory."""
    given, root = tmp_path / f"given/cri-o-{VERSION}", tmp_path / "root"
    for directory in (given, root / "usr/local/bin", root / "usr/local/sbin", root / "etc/systemd/system"):
        directory.mkdir(parents=True)
    for name in PROGRAMS:
        (given / name).write_text(name)
    monkeypatch.setenv("NODEUPGRADE_LAB_BINARIES", str(tmp_path / "given"))
    Crio().complete(root)
    return root


def test_programs_may_be_given(root: Path) -> None:
    assert crio.why_not() == ""
    assert [(root / "usr/local/bin" / name).read_text() for name in PROGRAMS] == list(PROGRAMS)
    assert (root / "etc/systemd/system/multi-user.target.wants/crio.service").is_symlink()


def test_the_unit_runs_nothing_besides_its_program(root: Path) -> None:
    """A node with such a unit is refused, since nobody can tell what another command does."""
    units = root / "etc/systemd/system"
    assert [line for line in (units / "crio.service").read_text().splitlines() if line.startswith("Exec")] == [
        "ExecStart=/usr/local/bin/crio"
    ]
    [other] = [unit for unit in (units / "multi-user.target.wants").iterdir() if unit.name != "crio.service"]
    assert "Before=crio.service" in (units / other.name).read_text()


@dataclass
class Wire:
    """What is asked of a runtime."""

    asked: dict[str, Any]

    def call(self, _socket: Path, method: str, fields: dict[int, Any]) -> bytes:
        self.asked[method.rpartition("/")[2]] = fields
        return b"\x0a\x01x"


def test_pods_without_a_kubelet_need_nothing_that_only_a_kubelet_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Wire({})
    monkeypatch.setattr(wire, "call", noted.call)

    cripods.CriPods(Path("/run/crio/crio.sock"), nodeimages.BUSYBOX).start(StoredHashes(container=None))

    sandbox, container = noted.asked["RunPodSandbox"][1], noted.asked["CreateContainer"][2]
    assert sandbox[8][1].endswith(".slice"), "where systemd makes the groups, it has to be one"
    assert (sandbox[3], "/" in container[11]) == ("/var/log", False), "these folders are there"


@pytest.mark.parametrize("prefix", ["", "./"])
def test_an_image_keeps_the_name_in_its_archive(tmp_path: Path, prefix: str) -> None:
    made, archive = tmp_path / "made.tar", tmp_path / "image.tar"
    nodeimages.write_archive(made, nodeimages.BUSYBOX, b"", ["sh"])
    with tarfile.open(made) as source, tarfile.open(archive, "w") as target:
        for member in source.getmembers():
            member.name = prefix + member.name
            target.addfile(member, source.extractfile(member))
    (tmp_path / "skopeo").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "skopeo").chmod(0o755)

    told = subprocess.run(
        Crio().import_command(str(archive)),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip

    assert told.stdout.split() == [
        "copy", "--quiet", f"docker-archive:{archive}", f"containers-storage:{nodeimages.BUSYBOX}",
    ]  # fmt: skip
