"""Tests the completion scripts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeupgrade.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_in_the_way_that_the_program_answers(shell: str) -> None:
    printed = CliRunner().invoke(main, ["completion", shell], prog_name="nodeupgrade").output
    assert f"_NODEUPGRADE_COMPLETE={shell}_complete" in printed


def test_the_script_for_kubectl_runs(tmp_path: Path) -> None:
    script = tmp_path / "kubectl_complete-nodeupgrade"
    script.write_text(CliRunner().invoke(main, ["completion", "kubectl"]).output, encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": "/nonexistent"}
    ran = subprocess.run(["sh", script, "appr"], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "approve\n:4\n"
