"""Several clusters on one screen: a line for each, and the failures of all."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.program import called
from nodeupgrade.cli.reports.clusters import ClusterReport
from nodeupgrade.cli.reports.overview import Overview
from nodeupgrade.cli.screens.formatting import BAD, BUSY, FAINT, NOTHING, SHORT_BAR, Columns, coloured, heading, since
from nodeupgrade.cli.screens.status import FAILURES_SHOWN, alarming, progress


def screen_of_clusters(reports: Sequence[ClusterReport], now: datetime) -> RenderableType:
    """Draw a line for each cluster, more where several of its rollouts matter, and failures with their cluster."""
    failed = [(each.context, seen) for each in reports for seen in each.shown if seen.status.failures]
    return Group(_lines(reports), *((heading("Failures"), _failures(failed, now)) if failed else ()))


def _lines(reports: Sequence[ClusterReport]) -> RenderableType:
    headings = ("CLUSTER", "ROLLOUT", "PHASE", "PROGRESS", "FAILED", "IN FLIGHT", "WHY")
    drawn = Columns(*headings, spare=("PROGRESS", "IN FLIGHT"))
    for report in reports:
        if report.error:
            state = Text("Unknown" if report.silent else NOTHING, BAD)
            drawn.add_row(report.context, NOTHING, state, *(NOTHING,) * 3, Text(report.error, BAD))
        elif not report.shown:
            drawn.add_row(report.context, *(NOTHING,) * 5, "there are no NodeUpgrades")
        for seen in report.shown:
            counts = seen.status.counts
            drawn.add_row(
                report.context,
                seen.upgrade.name,
                coloured(seen.status.phase or "Pending"),
                progress(counts, SHORT_BAR),
                alarming(counts.all_failed + counts.refused),
                str(len(seen.status.in_flight)),
                _why(seen),
            )
    return drawn


def _why(seen: Overview) -> Text:
    ready = seen.status.condition(ConditionType.READY)
    if seen.upgrade.paused_by_annotation and not seen.ended:
        return Text("Paused by annotation", BUSY)
    if seen.ended or ready.reason in {"", Reason.PROGRESSING}:
        return Text(ready.reason or "NotSeenYet")
    return Text(f"{ready.reason}: {ready.message}", BAD if seen.stalled else "")


def _failures(failed: Sequence[tuple[str, Overview]], now: datetime) -> RenderableType:
    drawn = Columns("CLUSTER", "ROLLOUT", "NODE", "REASON", "AGO", "MESSAGE", spare=("AGO", "ROLLOUT"))
    more = []
    for context, seen in failed:
        name, failures = seen.upgrade.name, seen.status.failures
        for failure in failures[:FAILURES_SHOWN]:
            drawn.add_row(context, name, failure.node, failure.reason, since(failure.time, now), failure.message)
        if len(failures) > FAILURES_SHOWN:
            more.append(Text(f"All of {context}: {called()} failures {name} --context {context}", FAINT))
    return Group(drawn, *more)
