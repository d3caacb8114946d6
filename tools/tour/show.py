"""Show a rollout over forty simulated nodes. Needs neither root nor a cluster, and changes nothing outside itself."""

import asyncio
import shlex
import time
from pathlib import Path

import click
import yaml
from rich.console import Console
from rich.panel import Panel

from nodeupgrade.cli.main import main as program
from tools.tour.cluster import NODES_MADE, PODS_PER_NODE, REFUSES, TURNS_BACK, TourCluster

ROLLOUT = Path(__file__).parent / "rollout.yaml"
NAME = "kubelet-1-33-13"

WHAT_IS_REAL = f"""\
Real: the planner, the operator's engine and the command line, as they run against any cluster.

Simulated: the API server, which is in memory; {NODES_MADE} nodes with {PODS_PER_NODE} pods each, which write what real
nodes write, one phase at a time; and time, which passes only while a command waits. No kubelet, no container and no
hash is involved, so this proves nothing about restarts. `make demo` does, on real ones."""

READ, GLANCE, LOOK = 6.0, 2.5, 0.35
"""Seconds for a screen, for a line, and between two looks of a command that watches."""


class Tour:
    """Runs command lines one after the other, with time to read."""

    def __init__(self, speed: float, console: Console) -> None:
        self._slow = 1 / speed if speed else 0.0
        self._console = console
        self.cluster = TourCluster(LOOK * self._slow)

    def say(self, text: str) -> None:
        """Print what comes next."""
        self._console.print(f"\n[bold cyan]# {text}[/]")
        time.sleep(GLANCE * self._slow)

    def run(self, line: str, *, expected: int = 0) -> None:
        """Run one command line of ours.

        Raises:
            ClickException: It ended otherwise than expected.
        """
        self._console.print(f"[bold]$ nodeupgrade {line}[/]")
        code = program.main(shlex.split(line), obj=self.cluster.world(), prog_name="nodeupgrade", standalone_mode=False)
        if code != expected:
            raise click.ClickException(f"the tour is wrong: nodeupgrade {line} ended with {code}, not {expected}")
        time.sleep(READ * self._slow)


@click.command()
@click.option("--speed", default=1.0, show_default=True, help="How much faster; 0 does not wait at all.")
def main(speed: float) -> None:
    """Show a rollout over forty simulated nodes, in two minutes."""
    console = Console(highlight=False)
    console.print(Panel(WHAT_IS_REAL, title="nodeupgrade, a tour", expand=False))
    tour = Tour(speed, console)
    cluster = tour.cluster
    asyncio.run(cluster.fill())
    before = asyncio.run(cluster.containers())

    tour.say("What would this rollout do? Nothing is touched.")
    tour.run(f"plan {shlex.quote(str(ROLLOUT))}")
    tour.say("kubectl apply would create it; here the tour does. The second wave waits for an approval: given ahead.")
    asyncio.run(cluster.apply(yaml.safe_load(ROLLOUT.read_text(encoding="utf-8"))))
    tour.run(f"approve {NAME} everything")
    tour.say(
        f"Watch it. {REFUSES} has a hash that cannot be reproduced, and {TURNS_BACK}'s new kubelet will not start."
    )
    tour.run(f"status {NAME} --watch --interval 5s --stop-when-stalled", expected=1)
    tour.say("One node failed, which is this rollout's threshold: it stopped. What happened, and what to do?")
    tour.run(f"failures {NAME}", expected=1)
    tour.run(f"explain-node {TURNS_BACK}")
    tour.say("Suppose that both causes are removed.")
    cluster.repair()
    tour.run(f"retry {NAME}")
    tour.run(f"status {NAME} --watch --interval 5s")
    tour.say("What exactly was done to one of them?")
    tour.run("evidence node-05")
    versions, after = asyncio.run(cluster.versions()), asyncio.run(cluster.containers())
    console.print(
        f"\n{versions.count('v1.33.13')} of {len(versions)} simulated nodes run v1.33.13, one was left out because "
        f"somebody had cordoned it; {len(before & after)} of {len(before)} simulated containers are what they were.\n"
        "The same with real kubelets and containers: make demo (as root)."
    )
