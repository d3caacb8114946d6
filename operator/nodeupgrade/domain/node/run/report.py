"""How a finished run sums itself up: the payload of its journal's last record."""

from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import from_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.journal import Journal, Outcome
from nodeupgrade.kubelet.probe_delay import keeps_probes
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How a run ended.

    Attributes:
        down_seconds: from the order to stop the kubelet to its (or its successor's) healthy answer; ``None`` when
            it was never stopped, or a reboot or a rescue without the executor makes the figure meaningless.
        baseline: containers that ran before.
        rewritten: containers whose stored hash is another one now.
        restarted: containers that are not the same instance any more, as far as was seen.
        listed: the first of them, ``namespace/pod/container``, and sandboxes that changed.
        ended: those that ended by themselves, or because their pod was deleted, while the new kubelet settled in.
        looked: whether the runtime showed everything when this was summed up; if not, what restarted is not known.
    """

    outcome: Outcome
    reason: Reason
    message: str
    down_seconds: float | None
    baseline: int
    rewritten: int
    restarted: int
    listed: tuple[str, ...]
    rebooted: bool
    ended: tuple[str, ...] = ()
    looked: bool = True


def probes_forgotten_at(plan: RunPlan, journal: Journal) -> datetime | None:
    """When the kubelet was started that runs at the end of a run, if it begins with nothing known of its pods' probes.

    ``None`` also for a run without an end, for one after which a human is needed, and if no kubelet was ever stopped.
    """
    report, started = report_of(journal), journal.kubelet_started_at
    if report is None or started is None or report.outcome is Outcome.DEGRADED:
        return None
    version = plan.to_version if report.outcome is Outcome.UPGRADED else plan.from_version
    return None if keeps_probes(KubeletVersion.parse(version)) else datetime.fromisoformat(started)


def report_of(journal: Journal) -> RunReport | None:
    """The report of a run that is over.

    Raises:
        MalformedFileError: another version of this program wrote it.
    """
    return None if journal.finished is None else from_json(RunReport, journal.finished.payload, strict=True)
