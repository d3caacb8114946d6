"""Tests the program's name, help, and startup."""

import os
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from nodeupgrade.cli.main import main
from tests.golden.cli.cluster import WORLD, Cluster


@pytest.mark.parametrize(
    ("program", "name"),
    [("/usr/bin/nodeupgrade", "nodeupgrade"), ("/opt/krew/bin/kubectl-nodeupgrade", "kubectl nodeupgrade")],
)
def test_help_can_be_copied(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "lint", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Usage: {name} lint")
    assert f"kustomize build . | {name} lint -" in printed


@pytest.mark.parametrize(
    "words",
    [["status", "kubelet-1-33-13-gpu"], ["pause", "kubelet-1-30-14"], ["failures", "--help"], ["abort", "--help"]],
)
def test_every_command_line_that_is_shown_can_be_copied(words: list[str]) -> None:
    """As a plugin of kubectl the program is not on the PATH under its own name, or need not be."""
    cluster = Cluster(*WORLD)
    shown = CliRunner().invoke(main, words, obj=cluster.world(), prog_name="kubectl nodeupgrade").output
    shown += (
        CliRunner()
        .invoke(main, ["status", "kubelet-1-33-13"], obj=cluster.world(), prog_name="kubectl nodeupgrade")
        .output
    )
    assert re.findall(r"(?<!kubectl )(?<![./\w-])nodeupgrade (?:" + "|".join(main.commands) + r")\b", shown) == []


@pytest.mark.parametrize("program", ["nodeupgrade", "kubectl-nodeupgrade"])
def test_completion(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"_NODEUPGRADE_COMPLETE": "bash_complete", "COMP_WORDS": f"{program} sta", "COMP_CWORD": "1"}
    for key, value in words.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", [program])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == "plain,status\n"


def test_every_command_teaches() -> None:
    context = click.Context(main)
    for name, listed in main.commands.items():
        command = main.get_command(context, name)
        assert command is not None
        assert "Example" in CliRunner().invoke(main, [name, "--help"]).output, name
        assert command.name == name
        assert " ".join((command.help or "").partition("\n\n")[0].split()) == listed.short_help


LISTS_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep="\\n", file=sys.stderr))
from nodeupgrade.cli.main import main
main(prog_name="nodeupgrade")
"""
HEAVY = ("nodeupgrade.node", "nodeupgrade.fleet", "nodeupgrade.cluster", "nodeupgrade.findings", "yaml", "kubernetes")


@pytest.mark.parametrize(
    ("arguments", "environment", "printed"),
    [
        (["--help"], {}, "Show the status of rollouts."),
        ([], {"_NODEUPGRADE_COMPLETE": "bash_complete", "COMP_WORDS": "nodeupgrade s", "COMP_CWORD": "1"}, "status"),
    ],
    ids=["help", "completion"],
)
def test_help_and_completion_load_no_command(arguments: list[str], environment: dict[str, str], printed: str) -> None:
    """Somebody who presses TAB waits for every module that is loaded; all commands together take a second."""
    argv, every = [sys.executable, "-c", LISTS_MODULES, *arguments], {**os.environ, **environment}
    ran = subprocess.run(argv, env=every, capture_output=True, text=True, check=True, timeout=60)
    assert printed in ran.stdout
    loaded = ran.stderr.split()
    assert "nodeupgrade.cli.program" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []
