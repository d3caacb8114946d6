"""Sum up the attempts of one run: add up their downtime and the containers that any of them restarted.

Each attempt has its own baseline, in which a container that an earlier attempt restarted looks untouched.
"""

from collections.abc import Sequence
from dataclasses import replace

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.run.report import RunReport, report_of


def summed_up(journals: Sequence[Journal]) -> RunReport | None:
    """Return the report of the last attempt, with the restarts and the downtime of all attempts.

    ``None`` if the last attempt is not over.

    Raises:
        MalformedFileError: another version of this program wrote a report.
    """
    reports = [report_of(journal) for journal in journals]
    over = [report for report in reports if report is not None]
    if not reports or (last := reports[-1]) is None:
        return None
    listed = dict.fromkeys(label for report in over for label in report.listed)
    ended = dict.fromkeys(label for report in over for label in report.ended)
    changes = dict.fromkeys(change for report in over for change in report.owner_changes)
    restarted = len(listed) + sum(report.restarted - len(report.listed) for report in over)
    before = restarted - last.restarted + sum(label not in last.ended for label in ended if label not in listed)
    return replace(
        last,
        down_seconds=_down_seconds(journals, reports),
        same=max(0, last.same - before),
        restarted=restarted,
        listed=tuple(listed)[:CONTAINERS_LISTED],
        ended=tuple(label for label in ended if label not in listed),
        owner_changes=tuple(changes)[:CONTAINERS_LISTED],
        ended_before=tuple(dict.fromkeys(label for report in over for label in report.ended_before)),
        rebooted=any(report.rebooted for report in over),
    )


def _down_seconds(journals: Sequence[Journal], reports: Sequence[RunReport | None]) -> float | None:
    """Add up the time without a kubelet; ``None`` if that of an attempt is unknown, or if none stopped the kubelet."""
    pairs = [(journal, report) for journal, report in zip(journals, reports, strict=True) if report is not None]
    downs = [
        report.down_seconds
        for journal, report in pairs
        if report.down_seconds is not None or journal.first(Step.STOP_KUBELET, Mark.DOING) is not None
    ]
    return None if not downs or None in downs else round(sum(down or 0.0 for down in downs), 3)


def is_worth_another(journal: Journal) -> bool:
    """Report whether another attempt may succeed: containers changed between planning and the kubelet's stop."""
    report, wanted = report_of(journal), (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    return report is not None and (report.outcome, report.reason) == wanted
