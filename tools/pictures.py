"""Write the pictures of README.md and the pages: `python -m tools.pictures`.

They are what the command line prints on the tour's cluster, and the way of one node.

Each picture is for a light page; the one with ``-dark`` in its name shows the same on a dark one.
"""

import asyncio
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from click.testing import CliRunner
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from nodeupgrade.api.printer_columns import KINDS
from nodeupgrade.cli.main import main as program
from nodeupgrade.cluster.kube_api import UPGRADES
from tools import kubectl_get, node_picture
from tools.tour.cluster import TourCluster
from tools.tour.show import NAME, ROLLOUT

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 100
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
LOOKS = 300
"""Looks of the operator within which the first node has failed."""

THEMES = {"": DEFAULT_TERMINAL_THEME, "-dark": SVG_EXPORT_THEME}
"""By what is added to a picture's name."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A command, and what it printed."""

    command: str
    printed: str


_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that a picture would load from elsewhere; a monospaced font of the reader's does as well."""


def record() -> Mapping[str, str]:
    """Return the pictures by name, as SVG."""
    cluster = TourCluster(0, NOW)
    asyncio.run(cluster.fill())
    plan = Screen("nodeupgrade plan rollout.yaml", _printed(cluster, f"plan {ROLLOUT}").printed)
    asyncio.run(cluster.apply(yaml.safe_load(ROLLOUT.read_text(encoding="utf-8"))))
    _run(cluster, f"approve {NAME} everything")
    asyncio.run(_pass_time(cluster))
    status = Screen("kubectl get nodeupgrades", _got(cluster)), _printed(cluster, f"status {NAME}")
    screens = {"plan": (plan,), "status": status, "failures": (_printed(cluster, f"failures {NAME}"),)}
    recorded = {
        f"{name}{suffix}": _picture(f"{name}{suffix}", shown, theme)
        for name, shown in screens.items()
        for suffix, theme in THEMES.items()
    }
    return recorded | {f"node{suffix}": node_picture.picture(node_picture.COLOURS[suffix]) for suffix in THEMES}


async def _pass_time(cluster: TourCluster) -> None:
    """Let the rollout go on until a node has failed while others are in flight.

    Raises:
        RuntimeError: None does.
    """
    world = cluster.world()
    for _ in range(LOOKS):
        await world.sleep(5)
        status = (await cluster.kube.get(UPGRADES, NAME)).get("status", {})
        if status.get("failed") and status.get("inFlight"):
            return
    raise RuntimeError("no node has failed")


def _run(cluster: TourCluster, line: str) -> str:
    environment = {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": None}
    invoked = CliRunner().invoke(program, line.split(), obj=cluster.world(), env=environment, color=True)
    if invoked.exception is not None and not isinstance(invoked.exception, SystemExit):
        raise invoked.exception
    return invoked.output


def _printed(cluster: TourCluster, line: str) -> Screen:
    return Screen(f"nodeupgrade {line}", _run(cluster, line))


def _got(cluster: TourCluster) -> str:
    (kind,) = (each for each in KINDS if each.kind == UPGRADES.kind)
    return "\n".join(kubectl_get.table(kind, asyncio.run(cluster.kube.list(UPGRADES)), cluster.world().now()))


def _picture(name: str, screens: Iterable[Screen], theme: TerminalTheme) -> str:
    paper = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, screen in enumerate(screens):
        paper.print(*([""] if number else []), f"$ {screen.command}", style="bold", sep="\n", highlight=False)
        paper.print(Text.from_ansi(screen.printed.rstrip("\n")))
    return _FONTS.sub("", paper.export_svg(title="nodeupgrade (simulated nodes)", unique_id=name, theme=theme))


def main() -> None:
    """Write them."""
    PICTURES.mkdir(exist_ok=True)
    for name, picture in record().items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
