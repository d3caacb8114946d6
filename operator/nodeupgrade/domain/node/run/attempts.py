"""What the attempts of one run come to together: the first stop counts, and nothing that restarted is forgotten.

Each attempt counts from what it found, so that a container which an earlier one restarted looks untouched to the next.
"""

from collections.abc import Sequence
from dataclasses import replace

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.node.run.journal import Journal, Outcome
from nodeupgrade.domain.node.run.report import RunReport, report_of


def summed_up(journals: Sequence[Journal]) -> RunReport | None:
    """The report of the last of these attempts, with what became of containers in those before.

    ``None`` if the last one is not over.

    Raises:
        MalformedFileError: another version of this program wrote a report.
    """
    reports = [_own_share(journal) for journal in journals]
    over = [report for report in reports if report is not None]
    if not reports or (last := reports[-1]) is None:
        return None
    listed = dict.fromkeys(label for report in over for label in report.listed)
    ended = dict.fromkeys(label for report in over for label in report.ended)
    downs = [report.down_seconds for report in over]
    return replace(
        last,
        down_seconds=None if None in downs else round(sum(down or 0.0 for down in downs), 3),
        restarted=len(listed) + sum(report.restarted - len(report.listed) for report in over),
        listed=tuple(listed)[:CONTAINERS_LISTED],
        ended=tuple(label for label in ended if label not in listed),
        rebooted=any(report.rebooted for report in over),
    )


def is_worth_another(journal: Journal) -> bool:
    """Whether containers came or went between plan and stop, so that the next plan may fit."""
    match report_of(journal):
        case RunReport(outcome=Outcome.ROLLED_BACK, reason=Reason.INVENTORY_CHANGED):
            return True
        case _:
            return False


def _own_share(journal: Journal) -> RunReport | None:
    """A report without what had ended before anything was touched; that ended by itself, or somebody ended it."""
    if (report := report_of(journal)) is None:
        return None
    found = frozenset(label for record in journal.records for label in record.changed)
    before = tuple(label for label in report.listed if label in found)
    return replace(
        report,
        restarted=report.restarted - len(before),
        listed=tuple(label for label in report.listed if label not in found),
        ended=(*report.ended, *before),
    )
