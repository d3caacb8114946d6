"""The program answers to the name by which it was called."""

import re
import sys

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


@pytest.mark.parametrize(
    ("program", "variable"),
    [("nodeupgrade", "_NODEUPGRADE_COMPLETE"), ("kubectl-nodeupgrade", "_KUBECTL_NODEUPGRADE_COMPLETE")],
)
def test_completion(
    program: str, variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, value in {variable: "bash_complete", "COMP_WORDS": f"{program} sta", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", [program])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == "plain,status\n"


def test_every_command_teaches() -> None:
    for name, command in main.commands.items():
        shown = CliRunner().invoke(main, [name, "--help"]).output
        assert "Example" in shown, name
        assert command.help
