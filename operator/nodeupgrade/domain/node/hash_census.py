"""Count the running containers of a node by the kubelet whose hash is stored with them, before a run and after it."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from nodeupgrade.api.task.census import UNKNOWN_KUBELET, HashCensus
from nodeupgrade.domain.node.journal import Outcome
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.report import RunReport
from nodeupgrade.kubelethash import KubeletVersion


def census(writers: Iterable[str | None], at: datetime) -> HashCensus:
    """Count containers by the minor version that computes their stored hash; ``None`` if no known one does."""
    return HashCensus(as_of=at, kubelets=dict(sorted(Counter(each or UNKNOWN_KUBELET for each in writers).items())))


def as_planned(plan: RunPlan) -> HashCensus | None:
    """Return what was found when a run was planned; ``None`` if the plan does not say when that was."""
    at = plan.examined_at
    return None if at is None else census(_writers(plan), datetime.fromisoformat(at))


def as_left(plan: RunPlan, report: RunReport, at: datetime) -> HashCensus | None:
    """Return what a run left, of the containers that it was planned for; ``None`` if that is not certain."""
    if plan.examined_at is None or not report.looked or report.restarted or report.outcome is Outcome.DEGRADED:
        return None
    there = tuple(_writers(plan, without=frozenset(report.ended)))
    if report.outcome is Outcome.ROLLED_BACK:
        return census(there, at)
    return census([KubeletVersion.parse(plan.to_version).series] * len(there), at)


def _writers(plan: RunPlan, without: frozenset[str] = frozenset()) -> Iterable[str]:
    planned = (each for each in plan.containers if not each.expendable and each.label not in without)
    return (each.written_by for each in planned if each.written_by is not None)
