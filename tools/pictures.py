"""Record what the command line prints on the tour's cluster as pictures for README.md: `python -m tools.pictures`."""

import asyncio
import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml
from click.testing import CliRunner
from rich.console import Console
from rich.text import Text

from nodeupgrade.cli.main import main as program
from nodeupgrade.ports.kube import UPGRADES
from tools.tour.cluster import TourCluster
from tools.tour.show import NAME, ROLLOUT

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 100
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
LOOKS = 300
"""Looks of the operator within which the first node has failed."""

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that a picture would load from elsewhere; a monospaced font of the reader's does as well."""


def record() -> Mapping[str, str]:
    """Return the pictures by name, as SVG."""
    cluster = TourCluster(0, NOW)
    asyncio.run(cluster.fill())
    plan = _picture(cluster, "plan", f"plan {ROLLOUT}", shown="plan rollout.yaml")
    asyncio.run(cluster.apply(yaml.safe_load(ROLLOUT.read_text(encoding="utf-8"))))
    _run(cluster, f"approve {NAME} everything")
    asyncio.run(_pass_time(cluster))
    return {
        "plan": plan,
        "status": _picture(cluster, "status", f"status {NAME}"),
        "failures": _picture(cluster, "failures", f"failures {NAME}"),
    }


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


def _picture(cluster: TourCluster, name: str, line: str, *, shown: str = "") -> str:
    paper = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    paper.print(f"$ nodeupgrade {shown or line}", style="bold")
    paper.print(Text.from_ansi(_run(cluster, line)))
    return _FONTS.sub("", paper.export_svg(title="nodeupgrade (simulated nodes)", unique_id=name))


def main() -> None:
    """Write them."""
    PICTURES.mkdir(exist_ok=True)
    for name, picture in record().items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
