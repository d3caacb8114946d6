"""The report of a finished run: the payload of its journal's last record."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import from_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import UNKNOWN_KUBELET, HashCensus, OwnedChange
from nodeupgrade.kubelet.probe_delay import keeps_probes
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.journal.journal import Journal, Outcome
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.text import parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How a run ended."""

    outcome: Outcome
    reason: Reason
    message: str
    # from the request to stop the kubelet until the old or the new one is healthy; None if it was never stopped, or if
    # a reboot or a rescue without the executor makes the figure meaningless
    down_seconds: float | None
    baseline: int  # number of containers that ran before
    same: int  # how many of these are the instances that they were
    rewritten: int  # number of containers whose stored hash was rewritten
    # number of instances that changed, as far as was observed; also sandboxes in which no container ran, so that they
    # may be more than ``baseline``
    restarted: int
    listed: tuple[str, ...]  # the first of them, as ``namespace/pod/container``, and sandboxes that changed
    rebooted: bool
    # those that ended by themselves, or with their pod, during the settle period; or that had changed before the run,
    # which turned back for it, touched anything
    ended: tuple[str, ...] = ()
    ended_before: tuple[str, ...] = ()  # those of the plan that ended before the kubelet was stopped; not counted above
    changed: tuple[str, ...] = ()  # those that changed because their owner wanted it, during the settle period
    owner_changes: tuple[OwnedChange, ...] = ()  # the first changes of owners since the run was planned
    # those of `ended` that ended because the runtime was restarted, while no kubelet ran
    with_runtime: tuple[str, ...] = ()
    recreated: tuple[str, ...] = ()  # containers of static pods that were replaced on request
    # containers that came after planning, or were resized, and whose hash for the old kubelet is not known
    unrecognised: tuple[str, ...] = ()  # those that run on, which it may still restart
    unrecognised_ended: tuple[str, ...] = ()  # those that have ended since, or were restarted
    looked: bool = True  # whether the runtime answered for this report; if not, it is unknown what restarted


def probes_forgotten_at(plan: RunPlan, journal: Journal) -> datetime | None:
    """Return when the kubelet that runs at the end was started, if it starts without results of its pods' probes.

    Otherwise ``None``; also if the run is not over or ended as Degraded, and if the kubelet was never stopped.
    """
    report, started = report_of(journal), journal.kubelet_started_at
    if report is None or started is None or report.outcome is Outcome.DEGRADED:
        return None
    version = plan.to_version if report.outcome is Outcome.UPGRADED else plan.from_version
    return None if keeps_probes(KubeletVersion.parse(version)) else parse_time(started)


def report_of(journal: Journal) -> RunReport | None:
    """Return the report of a run; ``None`` if it is not over.

    Raises:
        MalformedFileError: another version of this program wrote it.
    """
    return None if journal.finished is None else from_json(RunReport, journal.finished.payload, strict=True)


def census(writers: Iterable[str | None], at: datetime) -> HashCensus:
    """Count containers by the minor version that computes their stored hash; ``None`` if no known one does."""
    return HashCensus(as_of=at, kubelets=dict(sorted(Counter(each or UNKNOWN_KUBELET for each in writers).items())))


def as_planned(plan: RunPlan) -> HashCensus | None:
    """Return what was found when a run was planned; ``None`` if the plan does not say when that was."""
    at = plan.examined_at
    return None if at is None else census(_writers(plan), parse_time(at))


def as_left(plan: RunPlan, report: RunReport, at: datetime) -> HashCensus | None:
    """Return what a run left, of the containers that it was planned for; ``None`` if that is not certain."""
    if plan.examined_at is None or not report.looked or report.restarted or report.outcome is Outcome.DEGRADED:
        return None
    there = tuple(_writers(plan, without=frozenset((*report.ended, *report.changed))))
    if report.outcome is Outcome.ROLLED_BACK:
        return census(there, at)
    return census([KubeletVersion.parse(plan.to_version).series] * len(there), at)


def _writers(plan: RunPlan, without: frozenset[str] = frozenset()) -> Iterable[str]:
    planned = (each for each in plan.containers if not each.expendable and each.label not in without)
    return (each.written_by for each in planned if each.written_by is not None)
