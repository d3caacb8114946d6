"""Watch a rollout until it ends: a live table on a terminal, one line for each change elsewhere."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import click
from rich.live import Live

from nodeupgrade.api.json import timestamp
from nodeupgrade.cli.console import console
from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cli.program import NO, OK, TIME_IS_OVER
from nodeupgrade.cli.reports.overview import Overview
from nodeupgrade.cli.screens import status
from nodeupgrade.ports.kube import UnavailableError

Look = Callable[[], Awaitable[Overview]]
Show = Callable[[Overview], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """How long to watch: seconds between reads, seconds in all, and whether to stop when the rollout stalls."""

    interval: float
    limit: float | None = None
    stop_when_stalled: bool = False


async def watch(world: World, look: Look, until: Until) -> int:
    """Show a rollout until it ends, and return the exit code.

    An API server that does not answer for a while is waited for: it may be being upgraded itself.
    """
    screen = console()
    if not screen.is_terminal:
        return await _follow(world, look, _Lines(world), until)
    with Live(console=screen, auto_refresh=False, vertical_overflow="visible") as live:

        def draw(seen: Overview) -> None:
            live.update(status.one(seen, world.now()), refresh=True)

        return await _follow(world, look, draw, until)


class _Lines:
    """Prints a line whenever it differs from the last one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last = ""

    def __call__(self, seen: Overview) -> None:
        text = status.line(seen)
        if text != self._last:
            click.echo(f"{timestamp(self._world.now().replace(microsecond=0))} {text}")
        self._last = text


async def _follow(world: World, look: Look, draw: Show, until: Until) -> int:
    end = None if until.limit is None else world.now() + timedelta(seconds=until.limit)
    silent = False
    while True:
        try:
            seen = await look()
        except UnavailableError as error:
            if not silent:
                click.echo(f"waiting: {error}", err=True)
            silent = True
        else:
            silent = False
            draw(seen)
            if seen.ended or (until.stop_when_stalled and seen.stalled and not seen.flying):
                return OK if seen.succeeded else NO
        if end is not None and world.now() >= end:
            click.echo("error: cannot wait any longer because --timeout is over; the rollout goes on", err=True)
            return TIME_IS_OVER
        await world.sleep(until.interval)
