"""CRI-O in the lab: how its programs are found, how an image gets its name, and what its nodes are like."""

import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from e2e.faults.oracle import LEFT_OVER
from e2e.lab.errors import LabError
from e2e.lab.nodes import baseroot, nodeimages
from e2e.lab.runtimes import crio, runtime_named
from e2e.lab.runtimes.crio import PROGRAMS, STORAGE, VERSION, Crio
from e2e.lab.runtimes.runc import wrapper
from nodeupgrade.node.runtimes.description import SOCKETS_BESIDE
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


def test_a_base_root_belongs_to_one_version() -> None:
    names = {name: baseroot.directory(runtime_named(name)).name for name in ("containerd", "docker", "crio")}
    assert f"crio{VERSION}" in names["crio"]
    assert len(set(names.values())) == 3


def test_what_a_run_may_leave_on_a_node_is_looked_for() -> None:
    left = (f"run/crio/{SOCKETS_BESIDE[0]}", f"{STORAGE}/c1/userdata/.state.json.nodeupgrade-new")
    assert [any(fnmatch(path, pattern) for pattern in LEFT_OVER) for path in left] == [True, True]


CAPABILITIES = ("CAP_CHOWN", "CAP_KILL", "CAP_SYS_TIME", "CAP_BPF")
HOLDS = "CapBnd:\t{:016x}\n"


@pytest.mark.parametrize("indent", [None, "\t"], ids=["as Docker writes it", "as CRI-O writes it"])
@pytest.mark.parametrize(
    ("lacking", "left"),
    [
        ((), CAPABILITIES),
        (("CAP_CHOWN",), CAPABILITIES[1:]),
        (("CAP_BPF",), CAPABILITIES[:-1]),
        (("CAP_KILL", "CAP_SYS_TIME"), ("CAP_CHOWN", "CAP_BPF")),
        (CAPABILITIES, ()),
    ],
)
def test_no_container_gets_what_the_node_itself_lacks(
    tmp_path: Path, lacking: tuple[str, ...], left: tuple[str, ...], indent: str | None
) -> None:
    numbers = {"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_SYS_TIME": 25, "CAP_BPF": 39}
    status, config = tmp_path / "status", tmp_path / "config.json"
    status.write_text(HOLDS.format((1 << 41) - 1 - sum(1 << numbers[name] for name in lacking)))
    process: dict[str, Any] = {"capabilities": {"bounding": [*CAPABILITIES], "ambient": []}, "oomScoreAdj": -997}
    given = {"process": process, "args": ["a\nb\tc"], "linux": {"hugepageLimits": []}}
    config.write_text(json.dumps(given, indent=indent, separators=None if indent else (",", ":")))
    script = tmp_path / "runc"
    text = wrapper(crio.NO_HUGE_PAGES, program=shutil.which("echo") or "")
    script.write_text(text.replace("/proc/self/status", str(status)))
    script.chmod(0o755)

    done = subprocess.run(
        [script, "create", "--bundle", str(tmp_path), "c1"], capture_output=True, text=True, check=True, timeout=600
    )

    process = {"capabilities": {"bounding": [*left], "ambient": []}, "oomScoreAdj": 0}
    assert json.loads(config.read_text()) == given | {"process": process, "linux": {"hugepageLimitsOff": []}}
    assert done.stdout.split() == ["create", "--bundle", str(tmp_path), "c1"]


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
