"""The program answers to the name by which it was called."""

import sys

import pytest
from click.testing import CliRunner

from nodeupgrade.cli.main import main


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
