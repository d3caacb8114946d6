"""The report of a finished run: the payload of its journal's last record."""

from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import from_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.node.journal import Journal, Outcome
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.kubelet.probe_delay import keeps_probes
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How a run ended.

    Attributes:
        down_seconds: from the request to stop the kubelet until the old or the new one is healthy; ``None`` if it was
            never stopped, or if a reboot or a rescue without the executor makes the figure meaningless.
        baseline: number of containers that ran before.
        rewritten: number of containers whose stored hash was rewritten.
        restarted: number of instances that changed, as far as was observed.
        listed: the first of them, as ``namespace/pod/container``, and sandboxes that changed.
        ended: those that ended by themselves, or with their pod, during the settle period.
        with_runtime: those of them that ended because the runtime was restarted, while no kubelet ran.
        recreated: containers of static pods that were replaced on request.
        looked: whether the runtime answered for this report; if not, it is unknown what restarted.
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
    with_runtime: tuple[str, ...] = ()
    recreated: tuple[str, ...] = ()
    looked: bool = True


def probes_forgotten_at(plan: RunPlan, journal: Journal) -> datetime | None:
    """Return when the kubelet that runs at the end was started, if it starts without results of its pods' probes.

    Otherwise ``None``; also if the run is not over or ended as Degraded, and if the kubelet was never stopped.
    """
    report, started = report_of(journal), journal.kubelet_started_at
    if report is None or started is None or report.outcome is Outcome.DEGRADED:
        return None
    version = plan.to_version if report.outcome is Outcome.UPGRADED else plan.from_version
    return None if keeps_probes(KubeletVersion.parse(version)) else datetime.fromisoformat(started)


def report_of(journal: Journal) -> RunReport | None:
    """Return the report of a run; ``None`` if it is not over.

    Raises:
        MalformedFileError: another version of this program wrote it.
    """
    return None if journal.finished is None else from_json(RunReport, journal.finished.payload, strict=True)
