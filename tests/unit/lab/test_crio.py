"""CRI-O in the lab: how its programs are found, and how an image gets its name."""

import subprocess
from pathlib import Path

import pytest

from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.runtimes import crio
from e2e.lab.runtimes.crio import PROGRAMS, VERSION, Crio


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODEUPGRADE_LAB_DOWNLOAD", "never")
    monkeypatch.setenv("NODEUPGRADE_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NODEUPGRADE_LAB_BINARIES", raising=False)


def test_where_it_cannot_be_had_that_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"put crio and pinns into the directory cri-o-{VERSION}"):
        Crio().complete(tmp_path)
    assert crio.why_not().startswith("there is no CRI-O")


def test_programs_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, root = tmp_path / f"given/cri-o-{VERSION}", tmp_path / "root"
    for directory in (given, root / "usr/local/bin", root / "usr/local/sbin", root / "etc/systemd/system"):
        directory.mkdir(parents=True)
    for name in PROGRAMS:
        (given / name).write_text(name)
    monkeypatch.setenv("NODEUPGRADE_LAB_BINARIES", str(tmp_path / "given"))

    Crio().complete(root)

    assert crio.why_not() == ""
    assert [(root / "usr/local/bin" / name).read_text() for name in PROGRAMS] == list(PROGRAMS)
    assert (root / "etc/systemd/system/multi-user.target.wants/crio.service").is_symlink()


def test_an_image_keeps_the_name_in_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    nodeimages.write_archive(archive, nodeimages.BUSYBOX, b"", ["sh"])
    (tmp_path / "skopeo").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "skopeo").chmod(0o755)

    told = subprocess.run(
        Crio().import_command(str(archive)),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip

    assert told.stdout.split() == [
        "copy", "--quiet", f"docker-archive:{archive}", f"containers-storage:{nodeimages.BUSYBOX}",
    ]  # fmt: skip
