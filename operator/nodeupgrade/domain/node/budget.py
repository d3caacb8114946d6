"""How long a run may take, how long each of its calls, and how often it is tried."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.domain.node.journal import Journal, Mark, Outcome
from nodeupgrade.domain.node.plan import Limits
from nodeupgrade.domain.node.report import RunReport, report_of
from nodeupgrade.domain.node.rescue_script import hung_seconds

SAFETY = 2.0
"""Undoing may take this many times longer than the measured step."""

KUBELET_START_SECONDS = 5.0
"""Seconds until the old kubelet is healthy again, not measurable in a run. 0.4 s is usual; kubelet 1.20 takes 4.8 s."""

_MEASURED_BY: Mapping[Step, tuple[tuple[Step, float], ...]] = MappingProxyType({
    Step.PIN_STATIC_PODS: ((Step.PIN_STATIC_PODS, 0.1),),
    # Hashes are restored one by one, and then the runtime has to read them again.
    Step.REWRITE_HASHES: ((Step.REWRITE_HASHES, 0.5), (Step.RESTART_RUNTIME, 1.0)),
    Step.SWAP_FILES: ((Step.SWAP_FILES, 0.1),),
    Step.SET_ARGUMENTS: ((Step.SET_ARGUMENTS, 0.1),),
    Step.SWAP_BINARY: ((Step.SWAP_BINARY, 0.1),),
    Step.START_KUBELET: ((Step.STOP_KUBELET, 0.3),),
})  # fmt: skip
"""For each step, the steps that measure its undo, with a floor in seconds. Other steps cost nothing to undo."""


def undo_seconds(journal: Journal, steps: Iterable[Step]) -> float:
    """Estimate conservatively how long undoing these steps takes, in seconds, until a kubelet is healthy again."""
    total = 0.0
    for step in steps:
        total += KUBELET_START_SECONDS if step is Step.STOP_KUBELET else 0.0
        for measure, floor in _MEASURED_BY.get(step, ()):
            total += max(floor, SAFETY * taken(journal, measure))
    return total


def taken(journal: Journal, step: Step) -> float:
    """Return how many seconds a step took, interruptions included; 0 if it is not done."""
    began, ended = journal.first(step, Mark.DOING), journal.first(step, Mark.DONE)
    if began is None or ended is None or began.boot != ended.boot:
        return 0.0
    return max(0.0, ended.monotonic - began.monotonic)


# Sum up the attempts of one run: add up their downtime and the containers that any of them restarted.
#
# Each attempt has its own baseline, in which a container that an earlier attempt restarted looks untouched.


def summed_up(journals: Sequence[Journal]) -> RunReport | None:
    """Return the report of the last attempt, with the restarts and the downtime of all attempts.

    ``None`` if the last attempt is not over.

    Raises:
        MalformedFileError: another version of this program wrote a report.
    """
    reports = [_own_share(journal) for journal in journals]
    over = [report for report in reports if report is not None]
    if not reports or (last := reports[-1]) is None:
        return None
    listed = dict.fromkeys(label for report in over for label in report.listed)
    ended = dict.fromkeys(label for report in over for label in report.ended)
    return replace(
        last,
        down_seconds=_down_seconds(journals, reports),
        restarted=len(listed) + sum(report.restarted - len(report.listed) for report in over),
        listed=tuple(listed)[:CONTAINERS_LISTED],
        ended=tuple(label for label in ended if label not in listed),
        rebooted=any(report.rebooted for report in over),
    )


def _down_seconds(journals: Sequence[Journal], reports: Sequence[RunReport | None]) -> float | None:
    """Add up the time without a kubelet; ``None`` if that of an attempt is unknown, or if none stopped the kubelet."""
    pairs = [(journal, report) for journal, report in zip(journals, reports, strict=True) if report is not None]
    downs = [report.down_seconds for journal, report in pairs if report.down_seconds is not None or _stopped(journal)]
    return None if not downs or None in downs else round(sum(down or 0.0 for down in downs), 3)


def _stopped(journal: Journal) -> bool:
    return journal.first(Step.STOP_KUBELET, Mark.DOING) is not None


def is_worth_another(journal: Journal) -> bool:
    """Report whether another attempt may succeed: containers changed between planning and the kubelet's stop."""
    report, wanted = report_of(journal), (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    return report is not None and (report.outcome, report.reason) == wanted


def _own_share(journal: Journal) -> RunReport | None:
    """Return an attempt's report; containers that changed before the run touched anything count as ended."""
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


# How long an executor may show no progress before it counts as hung, and is killed to be started again.
#
# A new process continues where the journal ends, so a wrong judgement costs seconds. A missing one costs more: 40 s
# without a kubelet are enough for a Node to become NotReady.


FILES_SECONDS = 15.0
"""For steps that only read and write files: 100 MB, the program of a kubelet, at 7 MB/s."""
CALLS_SECONDS = 30.0
"""For steps that also call the runtime: two calls of 10 s each that it does not answer, and the files."""


def seconds_without_progress(step: Step, limits: Limits) -> float:
    """Return the bound for carrying out a step. Waiting in a loop is progress, and so is each decision.

    Undoing has the bound of the longest step: being killed again and again would keep a rollback from its end, whereas
    a run that goes forward is turned back by its budget.
    """
    match step:
        case Step.PIN_STATIC_PODS | Step.SWAP_FILES | Step.SET_ARGUMENTS | Step.SWAP_BINARY:
            return FILES_SECONDS
        case Step.CONFIRM_INVENTORY | Step.SAVE_STATE | Step.READ_BACK | Step.RAISE_SHIELD | Step.START_KUBELET:
            return CALLS_SECONDS
        case (
            Step.CONFIRM_BINARIES
            | Step.HOLD_PACKAGE
            | Step.ARM_DEAD_MAN
            | Step.STOP_KUBELET
            | Step.REWRITE_HASHES
            | Step.RESTART_RUNTIME
            | Step.VERIFY
            | Step.LOWER_SHIELD
        ):  # a kubelet runs, or systemd stops and starts a unit, which may take its own time
            return longest_silence(limits)
        case never:
            assert_never(never)


def longest_silence(limits: Limits) -> float:
    """Return the bound where no other applies."""
    return float(hung_seconds(limits))
