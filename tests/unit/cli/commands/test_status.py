"""On a terminal a rollout is drawn in place until it ends; an API server that is away is waited for."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console, RenderableType

from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cli.commands.status import Until, watch
from nodeupgrade.cli.reports.overview import Overview, overview
from nodeupgrade.cli.screens import status
from nodeupgrade.cluster.kube_api import UPGRADES, UnavailableError
from tests.golden.cli.cluster import NOW, Cluster


@pytest.mark.parametrize("terminal", [True, False])
async def test_drawn_until_it_ends(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster("upgrades.yaml")
    screen = io.StringIO()
    monkeypatch.setattr(
        "nodeupgrade.cli.commands.status.console", lambda: Console(file=screen, force_terminal=terminal, width=100)
    )
    names = ["kubelet-1-33-13", "", "", "kubelet-1-33-13", "kubelet-1-30-14"]

    async def look() -> list[Overview]:
        if name := names.pop(0):
            return [overview(parse_upgrade(await cluster.kube.get(UPGRADES, name)), {}, NOW)]
        raise UnavailableError("cannot GET it because the API server does not answer")

    def draw(seen: Sequence[Overview]) -> RenderableType:
        return status.many(seen, NOW)

    assert await watch(cluster.world(), look, draw, Until(interval=2), named=True) == 0
    assert names == []
    printed = capsys.readouterr()
    assert printed.err.count("waiting: cannot GET it") == 1
    drawn = screen.getvalue() if terminal else printed.out
    assert drawn.index("4/12") < drawn.index("16/16")
    assert ("\x1b[" in drawn) is terminal
    assert len(printed.out.splitlines()) == (0 if terminal else 2)
