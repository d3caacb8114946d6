"""A stand-in for a kubelet shows what it was asked; real ones are asked in tests/contract/node/test_kubelet.py."""

from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.kubelet import HostKubelet
from nodeupgrade.adapters.proc import ProcessTable


def test_gates_are_judged_without_anything_being_started(tmp_path: Path) -> None:
    program = tmp_path / "kubelet"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 1\n')
    program.chmod(0o755)

    asked = HostKubelet(ProcessTable()).gates_output(PurePosixPath(program), {"A": True, "B": False})

    assert asked.split() == ["--feature-gates=A=true,B=false", "--config=/nonexistent/nodeupgrade"]
