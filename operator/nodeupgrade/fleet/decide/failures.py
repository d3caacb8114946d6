"""Failures that the status of a rollout keeps until a retry, whatever becomes of the Node and its task.

The verdict on a run is in the task, which is deleted with its Node. So the write that frees a node's slot, at the
latest, also puts the failure on record. The first ``FAILURES_LISTED`` are listed by the UID of their Node; of the
others, numbers are kept. While its task is there, a failure is counted from the task.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import takewhile

from nodeupgrade.api.limits import (
    FAILURE_MESSAGE_LENGTH,
    FAILURE_WORD_LENGTH,
    FAILURES_LISTED,
    shorten,
    stored_uid,
)
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

KEPT = FAILURES | {Verdict.REFUSED}
"""Verdicts that are kept until a retry."""

DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""Delay after each refusal in a row; after the last one, a person must request a retry."""


def next_look(task: Task) -> datetime | None:
    """Return when to retry a node that its agent refused; None if that is left to a person.

    The agent itself has already retried for a minute. The result depends only on the task and its history, so a
    restarted operator arrives at the same time.
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


def wave_kept(wave: str) -> str:
    """Return the name of the wave that a failure counts for."""
    return wave or REMAINDER


NONE = UnlistedFailures()
_NUMBERS = tuple(each.name for each in fields(UnlistedFailures))


def numbers_of(failure: NodeFailure) -> UnlistedFailures:
    """Return what one failure counts."""
    failed, restarted = failure.outcome in FAILURES, failure.restarted
    return UnlistedFailures(refused=not failed, failed=failed, restarted=restarted or 0, unknown=restarted is None)


def added(numbers: UnlistedFailures, more: UnlistedFailures) -> UnlistedFailures:
    """Return the sum of numbers."""
    return UnlistedFailures(**{each: getattr(numbers, each) + getattr(more, each) for each in _NUMBERS})


def without(numbers: UnlistedFailures, others: UnlistedFailures) -> UnlistedFailures:
    """Return numbers without others among them; none is less than 0."""
    return UnlistedFailures(**{each: max(0, getattr(numbers, each) - getattr(others, each)) for each in _NUMBERS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The failures on record."""

    listed: tuple[NodeFailure, ...] = ()  # one by one
    more: Mapping[str, UnlistedFailures] = field(default_factory=dict)  # how many others there are, by wave


def kept(status: UpgradeStatus) -> Kept:
    """Return the failures that a status keeps."""
    listed = tuple(failure for failure in status.failures if failure.outcome is not None)
    return Kept(listed=listed, more={wave.name: wave.unlisted for wave in status.waves if wave.unlisted != NONE})


def keep(status: UpgradeStatus, record: Kept) -> UpgradeStatus:
    """Return the status with these failures on record."""
    if record == kept(status):
        return status
    others = tuple(each for each in status.failures if each.outcome is None)
    missing = [WaveStatus(name=name) for name in record.more if all(wave.name != name for wave in status.waves)]
    return replace(
        status,
        failures=(*record.listed, *others)[:FAILURES_LISTED],
        waves=tuple(replace(wave, unlisted=record.more.get(wave.name, NONE)) for wave in (*status.waves, *missing)),
    )


def numbered(status: UpgradeStatus) -> int:
    """Return how many failures a status keeps."""
    record = kept(status)
    return len(record.listed) + sum(each.refused + each.failed for each in record.more.values())


def is_on_record(status: UpgradeStatus, task: Task) -> bool:
    """Report whether the failure that a task tells of is listed in the status."""
    return any(each.uid == stored_uid(task.spec.node_uid) and each.outcome is not None for each in status.failures)


def has_verdict_to_keep(fleet: FleetSnapshot, task: Task) -> bool:
    """Report whether a task tells of a failed or refused upgrade of this rollout."""
    ours = task.spec.upgrade_ref.uid == fleet.upgrade.uid and task.kind is RunKind.UPGRADE
    return ours and task.verdict is not None and task.verdict.outcome in KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """Failures on record, of a rollout or a wave, of which no member tells any more: its Node or its task is gone."""

    listed: tuple[NodeFailure, ...] = ()  # those whose nodes are known
    more: UnlistedFailures = NONE  # how many others there are

    @property
    def numbers(self) -> UnlistedFailures:
        """All of them as numbers."""
        return reduce(added, map(numbers_of, self.listed), self.more)

    @property
    def total(self) -> int:
        """Number of nodes."""
        return self.numbers.refused + self.numbers.failed

    @classmethod
    def sum_of(cls, parts: Iterable["Departed"]) -> "Departed":
        """Return the failures of several waves as one."""
        every = tuple(parts)
        listed = tuple(each for part in every for each in part.listed)
        return cls(listed=listed, more=reduce(added, (part.more for part in every), NONE))


NOBODY = Departed()


def on_record(fleet: FleetSnapshot, freed: Collection[FreeSlot] = ()) -> FleetSnapshot:
    """Return the planner's input as it will be once these slots are free: with all failures on record."""
    status, ended = fleet.upgrade.status, {action.node for action in freed}
    book, held = _Book(fleet, kept(status)), {*status.in_flight} - ended
    for task in sorted(_telling(fleet), key=lambda task: task.name):
        if stored_uid(task.spec.node_uid) in book.uids:
            continue
        if task.name not in ended and task.name not in held and book.is_numbered(task):
            continue  # one of those for which there was no room
        if task.name in held and book.is_full:
            continue  # it is numbered by the write that frees its slot
        book.add(entry(task))
    for action in freed:
        if action.failure is not None:  # no task tells of it
            book.add(action.failure)
    slots = tuple(name for name in fleet.in_flight if name not in ended)
    status = replace(keep(status, book.result), in_flight=slots)
    return replace(fleet, upgrade=replace(fleet.upgrade, status=status))


def after_retry(fleet: FleetSnapshot) -> FleetSnapshot:
    """Return the planner's input with what a retry leaves on record: what it cannot try again, and what is in flight.

    A node that could not be rolled back is tried again once somebody has deleted its task and uncordoned it.
    """
    status = fleet.upgrade.status
    stays = {
        stored_uid(task.spec.node_uid)
        for task in _telling(fleet)
        if task.name in status.in_flight
        or (task.verdict is not None and task.verdict.outcome is Verdict.ROLLBACK_FAILED)
    }
    for node in fleet.nodes.values():
        ours = node.unschedulable and node.cordoned_by == fleet.upgrade.uid
        kept_of = fleet.record_of(node.name) if ours else None
        if kept_of is not None and kept_of.outcome is Verdict.ROLLBACK_FAILED:
            stays.add(kept_of.uid)
    left = Kept(listed=tuple(each for each in kept(status).listed if each.uid and each.uid in stays))
    return replace(fleet, upgrade=replace(fleet.upgrade, status=keep(status, left)))


def _telling(fleet: FleetSnapshot) -> Iterator[Task]:
    """Yield the tasks that tell of a failure, whose Nodes exist or hold a slot: a retry has dropped all others."""
    for task in fleet.tasks.values():
        if not has_verdict_to_keep(fleet, task):
            continue
        node = fleet.nodes.get(task.name)
        if (node is not None and node.uid == task.spec.node_uid) or task.name in fleet.upgrade.status.in_flight:
            yield task


def entry(task: Task) -> NodeFailure:
    """Return the record of a failure that a task tells of."""
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


class _Book:
    """Collects what is to be on record."""

    def __init__(self, fleet: FleetSnapshot, before: Kept) -> None:
        own = {
            stored_uid(task.spec.node_uid): task
            for task in fleet.tasks.values()
            if task.spec.upgrade_ref.uid == fleet.upgrade.uid
        }
        self._looks = {uid for uid, task in own.items() if next_look(task) is not None}
        self._listed = [each for each in before.listed if not _is_superseded(each, own.get(each.uid))]
        self._more = dict(before.more)
        self._numbered = Counter[tuple[str, bool]]()

    @property
    def result(self) -> Kept:
        """What is on record now."""
        return Kept(listed=tuple(self._listed), more=self._more)

    @property
    def uids(self) -> set[str]:
        """UIDs of the Nodes that are listed."""
        return {each.uid for each in self._listed}

    @property
    def is_full(self) -> bool:
        """Whether the list has no room for another failed node."""
        return all(each.outcome in FAILURES for each in self._listed) and len(self._listed) >= FAILURES_LISTED

    def is_numbered(self, task: Task) -> bool:
        """Report whether a task is one of those for which the list had no room, and take it off their number."""
        verdict, wave = task.verdict, wave_kept(task.spec.wave)
        if next_look(task) is not None:
            return len(self._listed) >= FAILURES_LISTED
        failed = verdict is not None and verdict.outcome in FAILURES
        numbers = self._more.get(wave, NONE)
        self._numbered[wave, failed] += 1
        return self._numbered[wave, failed] <= (numbers.failed if failed else numbers.refused)

    def add(self, failure: NodeFailure) -> None:
        """Put a failure on record; one that was touched takes the place of one that was only refused.

        One that could not be rolled back takes that of any other: it stops everything, and must be known by its name.
        """
        if len(self._listed) < FAILURES_LISTED:
            self._listed.append(failure)
            return
        given_up = (
            [each for each in self._listed if each.outcome is Verdict.REFUSED] if failure.outcome in FAILURES else []
        )
        if failure.outcome is Verdict.ROLLBACK_FAILED:
            given_up = given_up or [each for each in self._listed if each.outcome is not Verdict.ROLLBACK_FAILED]
        if given_up:
            self._listed.remove(given_up[-1])
            self._listed.append(failure)
            failure = given_up[-1]
        if failure.uid in self._looks:
            return  # it is looked at again by itself, and its task tells of it
        wave = wave_kept(failure.wave)
        self._more[wave] = added(self._more.get(wave, NONE), numbers_of(failure))


def _is_superseded(failure: NodeFailure, task: Task | None) -> bool:
    """Report whether a node that was refused for a passing reason is looked at again: only then, its task is reopened.

    A retry drops its entry, and without one, nothing else reopens the task of a node on record.
    """
    if failure.outcome is not Verdict.REFUSED or task is None or stored_uid(task.spec.node_uid) != failure.uid:
        return False
    reopened = bool(task.spec.history) and task.spec.history[-1].result is Verdict.REFUSED
    return reopened if task.verdict is None else task.verdict.outcome is not failure.outcome
