"""Failures that the status of a rollout keeps until a retry, whatever becomes of the Node and its task.

The verdict on a run is in the task, which is deleted with its Node. So the write that frees a node's slot, at the
latest, also records the failure. The first ``FAILURES_LISTED`` are listed by the UID of their Node; the others are only
counted. While its task exists, a failure is counted from the task.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import takewhile

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, FAILURE_WORD_LENGTH, FAILURES_LISTED, shorten, stored_uid
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.upgrade.status import NodeFailure, UnlistedFailures, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import Verdict
from nodeupgrade.findings.finding import PASSING
from nodeupgrade.fleet.actions import FreeSlot
from nodeupgrade.fleet.snapshot import FleetSnapshot

FAILURES = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})
"""Verdicts that count against the failure threshold; a refused node was not touched and does not count."""

RECORDED = FAILURES | {Verdict.REFUSED}
"""Verdicts that stay on record until a retry."""

DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""Delay after each refusal in a row; after the last one, a person must request a retry."""


def next_look(task: Task) -> datetime | None:
    """Return when to retry a node that its agent refused; None if that is left to a person.

    The agent itself has already retried for a minute. The result depends only on the task and its history.
    """
    verdict = task.verdict
    if verdict is None or verdict.outcome is not Verdict.REFUSED or verdict.decided_at is None:
        return None
    own = (task.spec.upgrade_ref.name, task.spec.to_version, Verdict.REFUSED)
    in_a_row = takewhile(lambda run: (run.upgrade, run.to_version, run.result) == own, reversed(task.spec.history))
    earlier = sum(1 for _ in in_a_row)
    if verdict.reason not in PASSING or earlier >= len(DELAYS):
        return None
    return verdict.decided_at + DELAYS[earlier]


NO_FAILURES = UnlistedFailures()
_COUNTS = tuple(each.name for each in fields(UnlistedFailures))


def add_counts(first: UnlistedFailures, second: UnlistedFailures) -> UnlistedFailures:
    """Return the sum of two counts."""
    return UnlistedFailures(**{each: getattr(first, each) + getattr(second, each) for each in _COUNTS})


def subtract_counts(all_of_them: UnlistedFailures, some: UnlistedFailures) -> UnlistedFailures:
    """Return the difference of two counts; no number in it is less than 0."""
    return UnlistedFailures(**{each: max(0, getattr(all_of_them, each) - getattr(some, each)) for each in _COUNTS})


def count_failure(failure: NodeFailure) -> UnlistedFailures:
    """Return one failure as a count."""
    failed, restarted = failure.outcome in FAILURES, failure.restarted
    return UnlistedFailures(refused=not failed, failed=failed, restarted=restarted or 0, unknown=restarted is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """The failures on record."""

    listed: tuple[NodeFailure, ...] = ()
    unlisted: Mapping[str, UnlistedFailures] = field(default_factory=dict)  # how many others there are, by wave

    @property
    def total(self) -> int:
        """Number of nodes that failed or were refused."""
        return len(self.listed) + sum(each.refused + each.failed for each in self.unlisted.values())


def read_record(status: UpgradeStatus) -> FailureRecord:
    """Return the failures that a status has on record."""
    unlisted = {wave.name: wave.unlisted for wave in status.waves if wave.unlisted != NO_FAILURES}
    return FailureRecord(listed=tuple(each for each in status.failures if each.outcome is not None), unlisted=unlisted)


def with_record(status: UpgradeStatus, record: FailureRecord) -> UpgradeStatus:
    """Return the status with these failures on record."""
    if record == read_record(status):
        return status
    others = tuple(each for each in status.failures if each.outcome is None)
    missing = [WaveStatus(name=name) for name in record.unlisted if all(wave.name != name for wave in status.waves)]
    waves = (replace(each, unlisted=record.unlisted.get(each.name, NO_FAILURES)) for each in (*status.waves, *missing))
    return replace(status, failures=(*record.listed, *others)[:FAILURES_LISTED], waves=tuple(waves))


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedFailures:
    """Failures on record, of a rollout or a wave, that no member shows any more: its Node or its task is gone."""

    listed: tuple[NodeFailure, ...] = ()
    unlisted: UnlistedFailures = NO_FAILURES  # how many others there are

    @property
    def counts(self) -> UnlistedFailures:
        """All of them, counted."""
        return reduce(add_counts, map(count_failure, self.listed), self.unlisted)

    @property
    def total(self) -> int:
        """Number of nodes."""
        return self.counts.refused + self.counts.failed

    @classmethod
    def sum_of(cls, parts: Iterable["DepartedFailures"]) -> "DepartedFailures":
        """Return the failures of several waves as one."""
        every = tuple(parts)
        listed = tuple(each for part in every for each in part.listed)
        return cls(listed=listed, unlisted=reduce(add_counts, (part.unlisted for part in every), NO_FAILURES))


def record_failures(fleet: FleetSnapshot, freed: Collection[FreeSlot] = ()) -> FleetSnapshot:
    """Return the planner's input as it will be once these slots are free: with all failures on record."""
    status, ended = fleet.upgrade.status, {action.node for action in freed}
    recorder, holding = _Recorder(fleet, read_record(status)), {*status.in_flight} - ended
    for task in sorted(_failed_tasks(fleet), key=lambda task: task.name):
        if stored_uid(task.spec.node_uid) in recorder.uids:
            continue
        if task.name not in ended and task.name not in holding and recorder.take_unlisted(task):
            continue
        if task.name in holding and recorder.is_full:
            continue  # the write that frees its slot counts it
        recorder.add(failure_of(task))
    for action in freed:
        if action.failure is not None:  # no task shows it
            recorder.add(action.failure)
    slots = tuple(name for name in fleet.in_flight if name not in ended)
    status = replace(with_record(status, recorder.record), in_flight=slots)
    return replace(fleet, upgrade=replace(fleet.upgrade, status=status))


def clear_retried(fleet: FleetSnapshot) -> FleetSnapshot:
    """Return the planner's input with what a retry leaves on record: what it cannot try again, and what is in flight.

    A node that could not be rolled back is tried again once a person has deleted its task and uncordoned it.
    """
    status = fleet.upgrade.status
    stays = {
        stored_uid(task.spec.node_uid)
        for task in _failed_tasks(fleet)
        if task.name in status.in_flight
        or (task.verdict is not None and task.verdict.outcome is Verdict.ROLLBACK_FAILED)
    }
    for node in fleet.nodes.values():
        ours = node.unschedulable and node.cordoned_by == fleet.upgrade.uid
        failure = fleet.record_of(node.name) if ours else None
        if failure is not None and failure.outcome is Verdict.ROLLBACK_FAILED:
            stays.add(failure.uid)
    left = FailureRecord(listed=tuple(each for each in read_record(status).listed if each.uid and each.uid in stays))
    return replace(fleet, upgrade=replace(fleet.upgrade, status=with_record(status, left)))


def _failed_tasks(fleet: FleetSnapshot) -> Iterator[Task]:
    """Yield this rollout's tasks with a failure whose Nodes exist or hold a slot: a retry has dropped all others."""
    for task in fleet.tasks.values():
        if task.spec.upgrade_ref.uid != fleet.upgrade.uid or task.kind is not RunKind.UPGRADE:
            continue
        node = fleet.nodes.get(task.name)
        stays = (node is not None and node.uid == task.spec.node_uid) or task.name in fleet.upgrade.status.in_flight
        if stays and task.verdict is not None and task.verdict.outcome in RECORDED:
            yield task


def failure_of(task: Task) -> NodeFailure:
    """Return the failure of a task whose verdict is one of ``RECORDED``, as it goes on record."""
    verdict = task.verdict
    if verdict is None:
        raise ValueError(f"the task of {task.name} has no verdict")
    unknown = task.reported.containers.unknown and not verdict.restarted
    return NodeFailure(
        node=task.name,
        reason=verdict.reason.value[:FAILURE_WORD_LENGTH],
        step=step_of(task)[:FAILURE_WORD_LENGTH],
        message=shorten(verdict.message, FAILURE_MESSAGE_LENGTH),
        time=verdict.decided_at,
        uid=stored_uid(task.spec.node_uid),
        wave=task.spec.wave,
        outcome=verdict.outcome,
        restarted=None if unknown else verdict.restarted,
    )


def step_of(task: Task) -> str:
    """Return the step that failed, as far as the node side has reported it."""
    refused = task.verdict is not None and task.verdict.outcome is Verdict.REFUSED
    return task.reported.failed_step or ("preflight" if refused else "run")


class _Recorder:
    """Puts failures on record."""

    def __init__(self, fleet: FleetSnapshot, before: FailureRecord) -> None:
        own = {
            stored_uid(task.spec.node_uid): task
            for task in fleet.tasks.values()
            if task.spec.upgrade_ref.uid == fleet.upgrade.uid
        }
        self._looked_at_again = {uid for uid, task in own.items() if next_look(task) is not None}
        self._listed = [each for each in before.listed if not _is_superseded(each, own.get(each.uid))]
        self._unlisted = dict(before.unlisted)
        self._taken = Counter[tuple[str, bool]]()

    @property
    def record(self) -> FailureRecord:
        return FailureRecord(listed=tuple(self._listed), unlisted=self._unlisted)

    @property
    def uids(self) -> set[str]:
        """UIDs of the Nodes that are listed."""
        return {each.uid for each in self._listed}

    @property
    def is_full(self) -> bool:
        """Whether the list has no room for another failed node."""
        return all(each.outcome in FAILURES for each in self._listed) and len(self._listed) >= FAILURES_LISTED

    def take_unlisted(self, task: Task) -> bool:
        """Take a task off the number of those for which the list had no room; return False if none of them is left."""
        verdict, wave = task.verdict, task.spec.wave or REMAINDER
        if next_look(task) is not None:
            return len(self._listed) >= FAILURES_LISTED
        failed = verdict is not None and verdict.outcome in FAILURES
        counts = self._unlisted.get(wave, NO_FAILURES)
        self._taken[wave, failed] += 1
        return self._taken[wave, failed] <= (counts.failed if failed else counts.refused)

    def add(self, failure: NodeFailure) -> None:
        """Put a failure on record; a node that was touched takes the place of one that was only refused.

        One that could not be rolled back takes that of any other: it stops the rollout, so its name must be known.
        """
        if len(self._listed) < FAILURES_LISTED:
            self._listed.append(failure)
            return
        touched = failure.outcome in FAILURES
        replaceable = [each for each in self._listed if touched and each.outcome is Verdict.REFUSED]
        if failure.outcome is Verdict.ROLLBACK_FAILED:
            replaceable = replaceable or [each for each in self._listed if each.outcome is not Verdict.ROLLBACK_FAILED]
        if replaceable:
            self._listed.remove(replaceable[-1])
            self._listed.append(failure)
            failure = replaceable[-1]
        if failure.uid in self._looked_at_again:
            return  # its task shows it
        wave = failure.wave or REMAINDER
        self._unlisted[wave] = add_counts(self._unlisted.get(wave, NO_FAILURES), count_failure(failure))


def _is_superseded(failure: NodeFailure, task: Task | None) -> bool:
    """Report whether a refusal for a passing reason is over, since the node is looked at again and its task reopened.

    A retry drops the entry itself, and nothing else reopens the task of a node on record.
    """
    if failure.outcome is not Verdict.REFUSED or task is None or stored_uid(task.spec.node_uid) != failure.uid:
        return False
    reopened = bool(task.spec.history) and task.spec.history[-1].result is Verdict.REFUSED
    return reopened if task.verdict is None else task.verdict.outcome is not failure.outcome
