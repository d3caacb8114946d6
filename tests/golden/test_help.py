"""What every command says of itself."""

import click
import pytest

from nodeupgrade.cli.main import main
from tests.golden.cli.cluster import FILES, WORLD, Cluster, check


def commands(group: click.Group, path: str) -> list[str]:
    return [path, *(f"{path} {name}" for name in group.commands)]


def test_every_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster = Cluster(*WORLD)
    check("help.txt", (cluster.run(f"{command} --help") for command in commands(main, "nodeupgrade")))
