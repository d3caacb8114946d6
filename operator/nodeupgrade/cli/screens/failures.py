"""The failures of a rollout by reason, with what to do about each."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

from rich.console import RenderableType, group

from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.reports.failures import Failure
from nodeupgrade.cli.screens.formatting import BAD, NOTHING, Columns, facts, since


@group()
def by_reason(name: str, found: tuple[Failure, ...], now: datetime) -> Iterator[RenderableType]:
    """Draw failures grouped by reason."""
    yield Text(f"Failed or refused: {counted(len(found), 'node')} of {name}")
    for reason, failed in groupby(found, key=lambda failure: failure.reason):
        nodes = tuple(failed)
        yield Text()
        yield Text.assemble((reason or "(no reason given)", f"bold {BAD}"), f": {counted(len(nodes), 'node')}")
        if known := nodes[0].explanation:
            yield facts(("Means", known.meaning), ("Do", known.remedy))
        drawn = Columns("NODE", "RESULT", "WAVE", "STEP", "AGO", "MESSAGE", spare=("AGO", "WAVE", "STEP"))
        for each in nodes:
            message = each.message
            if each.restarted:
                message = f"{message.removesuffix('.')}; restarted: {', '.join(each.restarted)}"
            row = (each.node, each.result, each.wave, each.step)
            drawn.add_row(*(cell or NOTHING for cell in row), since(each.time, now), message)
        yield drawn
