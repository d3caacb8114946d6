"""The versions that the programs of all runtimes print, as an agent's pod asks them."""

import sys
from pathlib import Path

import pytest

from nodeupgrade.errors import TimedOut
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.runtimes.containerd.next_start import ContainerdProgram
from nodeupgrade.node.runtimes.crio.next_start import CrioProgram
from nodeupgrade.node.runtimes.docker.next_start import DockerdProgram

CRIO = "crio version 1.33.13\nVersion:        1.33.13\nGitCommit:      unknown\n"


@pytest.mark.parametrize(
    ("program", "printed", "version"),
    [
        (ContainerdProgram(), "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1", "1.6.20~ds1"),
        (ContainerdProgram(), "containerd github.com/containerd/containerd/v2 v2.3.1 abc", "2.3.1"),
        (ContainerdProgram(), "containerd", None),
        (CrioProgram(), CRIO, "1.33.13"),
        (CrioProgram(), "Version: v1.36.3\n", "1.36.3"),
        (CrioProgram(), "what?", None),
        (DockerdProgram(), "Docker version 20.10.24+dfsg1, build 297e128", "20.10.24+dfsg1"),
        (DockerdProgram(), "", None),
    ],
)
@pytest.mark.parametrize("status", [0, 1])
def test_a_version_is_read_from_what_a_program_prints(
    tmp_path: Path, program: NodeProgram, printed: str, version: str | None, status: int
) -> None:
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\n[ \"$*\" = --version ] && cat <<'.'\n{printed}\n.\nexit {status}\n")
    file.chmod(0o755)

    assert program.version(str(file)) == (version if status == 0 else None)


@pytest.mark.parametrize("kind", [ContainerdProgram, CrioProgram, DockerdProgram])
def test_what_cannot_be_run_has_no_version_and_what_hangs_is_an_error(tmp_path: Path, kind: type[NodeProgram]) -> None:
    assert kind().version(str(tmp_path / "nothing")) is None
    hangs = tmp_path / "hangs"
    hangs.write_text(f"#!{sys.executable}\nimport time; time.sleep(60)\n")
    hangs.chmod(0o755)
    with pytest.raises(TimedOut, match="did not end within"):
        kind(timeout=0.1).version(str(hangs))


def test_what_is_too_slow_once_is_asked_again(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\n[ -e {asked} ] || {{ : > {asked}; exec sleep 60; }}\necho answer\n")
    slow.chmod(0o755)

    assert NodeProgram(timeout=1.0).output((str(slow),)) == b"answer\n"
