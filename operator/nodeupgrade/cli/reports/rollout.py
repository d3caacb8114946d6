"""A rollout with all of its nodes, from what its status, their tasks and the history of these tasks still say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import PastRun, TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.values import Verdict
from nodeupgrade.cli.reports.overview import Overview, overview
from nodeupgrade.fleet.failures import RECORDED

WAITING, NOT_STARTED = "Waiting", "NotStarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What is recorded of one node of the rollout."""

    node: str
    state: str  # verdict, phase, ``WAITING`` or ``NOT_STARTED``
    wave: str = ""
    from_version: str = ""
    to_version: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None  # of a node of which only its end is known, the verdict
    down_seconds: float | None = None
    containers: int | None = None  # before the run
    rewritten: int | None = None
    restarted: int | None = None
    restarted_list: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    step: str = ""

    @property
    def took(self) -> timedelta | None:
        """How long its run took."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at

    @property
    def failed(self) -> bool:
        """Whether the node was refused, rolled back or failed."""
        return self.state in RECORDED


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run of this rollout on a node that was tried again."""

    node: str
    run: PastRun


@dataclass(frozen=True, slots=True)
class Binary:
    """A kubelet binary, and whether nodes had it before or after."""

    after: bool
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutReport:
    """A rollout and all that is recorded of its nodes."""

    seen: Overview
    now: datetime
    nodes: tuple[NodeRecord, ...]  # in the order of waves, in a wave by time
    earlier: tuple[EarlierRun, ...]
    binaries: Counter[Binary]  # how many nodes reported each
    unreadable: Mapping[str, str]  # by node what is wrong with its task, whosever it is

    @property
    def upgrade(self) -> Upgrade:
        """The rollout."""
        return self.seen.upgrade

    @property
    def unrecorded(self) -> int:
        """How many nodes neither task nor status names any more."""
        status = self.seen.status
        return max(0, status.counts.total - status.counts.skipped - len(self.nodes)) if status.planned_at else 0

    @property
    def down_seconds(self) -> tuple[float, NodeRecord] | None:
        """The median time without a kubelet, and the node without one for longest."""
        known = [(each.down_seconds, each) for each in self.nodes if each.down_seconds is not None]
        if not known:
            return None
        return median(seconds for seconds, _ in known), max(known, key=lambda each: each[0])[1]


def rollout_report(
    upgrade: Upgrade, tasks: Iterable[Task], now: datetime, unreadable: Mapping[str, str] | None = None
) -> RolloutReport:
    """Put together what is known; ``tasks`` are all of the cluster, since a later rollout may have taken some over."""
    nodes, earlier, binaries, own = dict[str, NodeRecord](), list[EarlierRun](), Counter[Binary](), dict[str, Task]()
    for task in tasks:
        past = [run for run in task.spec.history if run.upgrade_uid == upgrade.uid]
        if task.spec.upgrade_ref.uid == upgrade.uid and not task.released:
            own[task.name] = task
            nodes[task.name] = _of_task(task, idle=NOT_STARTED if upgrade.finished else WAITING)
            binaries.update(_binaries(task))
        elif past:
            nodes[task.name] = _of_history(task.name, past.pop())
        earlier += (EarlierRun(node=task.name, run=run) for run in past)
    for failure in upgrade.status.failures:
        nodes.setdefault(failure.node, _of_failure(failure))
    order = {wave.name: number for number, wave in enumerate(upgrade.status.waves)}
    return RolloutReport(
        seen=overview(upgrade, {task.name: task for task in own.values()}, now),
        now=now,
        nodes=tuple(sorted(nodes.values(), key=lambda each: (order.get(each.wave, len(order)), *_by_time(each, now)))),
        earlier=tuple(sorted(earlier, key=lambda each: each.node)),
        binaries=binaries,
        unreadable=unreadable or {},
    )


def _by_time(record: NodeRecord, now: datetime) -> tuple[bool, datetime, str]:
    moment = record.started_at or record.finished_at
    return moment is None, moment or now, record.node


def _of_task(task: Task, idle: str) -> NodeRecord:
    spec, report, verdict = task.spec, task.reported, task.verdict
    if verdict is None and spec.action is TaskAction.WAIT:
        return NodeRecord(node=task.name, state=idle, wave=spec.wave, from_version=spec.from_version)
    counts = report.containers  # none before the agent has counted them
    return NodeRecord(
        node=task.name,
        state=report.phase.value if verdict is None else verdict.outcome.value,
        wave=spec.wave,
        from_version=spec.from_version,
        to_version=spec.to_version,
        started_at=report.started_at,
        finished_at=report.finished_at or (None if verdict is None else verdict.decided_at),
        down_seconds=report.kubelet.down_seconds,
        containers=counts.baseline or None,
        rewritten=counts.rewritten if counts.baseline else None,
        restarted=counts.restarted if verdict is None else verdict.restarted,
        restarted_list=counts.restarted_list if verdict is None else verdict.restarted_list or counts.restarted_list,
        reason=report.reason if verdict is None else verdict.reason.value,
        message=report.message if verdict is None else verdict.message,
        step=report.failed_step,
    )


def _of_history(node: str, run: PastRun) -> NodeRecord:
    return NodeRecord(
        node=node,
        state=run.result.value,
        wave=run.wave,
        from_version=run.from_version,
        to_version=run.to_version,
        finished_at=run.time,
        restarted=run.restarted,
        reason=run.reason,
    )


def _of_failure(failure: NodeFailure) -> NodeRecord:
    return NodeRecord(
        node=failure.node,
        state=(failure.outcome or Verdict.REFUSED).value,
        wave=failure.wave,
        finished_at=failure.time,
        restarted=failure.restarted,
        reason=failure.reason,
        message=failure.message,
        step=failure.step or "",
    )


def _binaries(task: Task) -> Iterator[Binary]:
    kubelet = task.reported.kubelet
    for after, binary in ((False, kubelet.before), (True, kubelet.after)):
        if binary is not None and binary.sha256:
            yield Binary(after, binary.version or "", binary.sha256)
