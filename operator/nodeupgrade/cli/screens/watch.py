"""Watch rollouts until they end: a live screen on a terminal, one line for each change elsewhere."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rich.console import RenderableType
from rich.live import Live

from nodeupgrade.cli.console import console, say
from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cli.program import NO, OK, TIME_IS_OVER
from nodeupgrade.cli.reports.overview import Overview
from nodeupgrade.cli.screens import status
from nodeupgrade.cli.screens.formatting import to_the_second
from nodeupgrade.ports.kube import UnavailableError

Look = Callable[[], Awaitable[Sequence[Overview]]]
Draw = Callable[[Sequence[Overview]], RenderableType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """How long to watch: seconds between reads, seconds in all, and whether to stop when the rollout stalls."""

    interval: float
    limit: float | None = None
    stop_when_stalled: bool = False


async def watch(world: World, look: Look, draw: Draw, until: Until, *, named: bool) -> int:
    """Show rollouts until all of them have ended, and return the exit code.

    An API server that does not answer for a while is waited for: it may be being upgraded itself.

    Args:
        world: The clock.
        look: Reads the rollouts.
        draw: Draws them on a terminal.
        until: How long to watch.
        named: Whether one rollout was asked for by name; then it counts even if it had ended before.
    """
    screen = console()
    if not screen.is_terminal:
        return await _follow(world, look, _Lines(world, named=named), until, named=named)
    with Live(console=screen, auto_refresh=False, vertical_overflow="visible") as live:
        return await _follow(world, look, lambda seen: live.update(draw(seen), refresh=True), until, named=named)


class _Lines:
    """Prints a line for each rollout whenever it differs from the last one."""

    def __init__(self, world: World, *, named: bool) -> None:
        self._world = world
        self._named = named
        self._last: dict[str, str] = {}

    def __call__(self, rollouts: Sequence[Overview]) -> None:
        for seen in rollouts:
            name, text = seen.upgrade.name, status.line(seen)
            if text != self._last.get(name):
                moment = to_the_second(self._world.now())
                say(f"{moment} {text}" if self._named else f"{moment} {name}: {text}")
            self._last[name] = text


async def _follow(
    world: World, look: Look, show: Callable[[Sequence[Overview]], None], until: Until, *, named: bool
) -> int:
    end = None if until.limit is None else world.now() + timedelta(seconds=until.limit)
    silent, seen_going_on = False, set[str]()
    while True:
        try:
            rollouts = await look()
        except UnavailableError as error:
            if not silent:
                say(f"waiting: {error}", err=True)
            silent = True
        else:
            silent = False
            show(rollouts)
            seen_going_on |= {each.upgrade.name for each in rollouts if named or not each.ended}
            if all(_is_over(each, until) for each in rollouts):
                counted = (each for each in rollouts if each.upgrade.name in seen_going_on)
                return OK if all(each.succeeded for each in counted) else NO
        if end is not None and world.now() >= end:
            say("error: cannot wait any longer because --timeout is over; the rollout goes on", err=True)
            return TIME_IS_OVER
        await world.sleep(until.interval)


def _is_over(seen: Overview, until: Until) -> bool:
    return seen.ended or (until.stop_when_stalled and seen.stalled and not seen.flying)
