"""The journal of one run: what was attempted, what is known to have happened, and how to undo it.

One line per record. A record whose effect follows is on disk before the effect starts, with everything needed
to reverse it; so whatever a crash leaves behind, the journal knows at least as much as was done.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from nodeupgrade.api.json import JsonValue, MalformedFileError, from_json, to_json
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.domain.errors import Inconsistent

JOURNAL_SCHEMA = 1
CHANGED = "changed"


class Step(StrEnum):
    """The steps of a run; forward order is the order of definition."""

    CONFIRM_BINARIES = "confirm-binaries"
    ARM_DEAD_MAN = "arm-dead-man"
    STOP_KUBELET = "stop-kubelet"
    CONFIRM_INVENTORY = "confirm-inventory"
    SAVE_STATE = "save-state"
    PIN_STATIC_PODS = "pin-static-pods"
    REWRITE_HASHES = "rewrite-hashes"
    RESTART_RUNTIME = "restart-runtime"
    READ_BACK = "read-back"
    SET_ARGUMENTS = "set-arguments"
    SWAP_BINARY = "swap-binary"
    START_KUBELET = "start-kubelet"
    VERIFY = "verify"


class Mark(StrEnum):
    """What the journal truthfully knows about a step."""

    DOING = "doing"
    """An attempt was announced; it may have happened wholly, partly or not at all."""
    DONE = "done"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo-failed"
    HELD = "held"
    """Undoing it has to wait for the runtime, with the kubelet fenced."""
    FINISHED = "finished"
    """The run is over; the payload is its report. Belongs to no step."""


class Outcome(StrEnum):
    """How a run ends."""

    UPGRADED = "Upgraded"
    ROLLED_BACK = "RolledBack"
    DEGRADED = "Degraded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of the journal.

    Attributes:
        seq: 1, 2, 3 … without gaps.
        step: ``None`` for records about the whole run.
        boot: boot during which it was written.
        at: wall-clock time, RFC 3339, for people.
        monotonic: seconds since boot, for durations within one boot.
        payload: before-images for ``doing``; the report for ``finished``; what was found changed for ``failed``.
        error: one sentence, for failures.
        reason: fixed reason of a failure.
    """

    seq: int
    mark: Mark
    boot: BootIdentity
    at: str
    monotonic: float
    step: Step | None = None
    payload: dict[str, JsonValue] | None = None
    error: str | None = None
    reason: str | None = None
    schema: int = JOURNAL_SCHEMA

    @property
    def changed(self) -> tuple[str, ...]:
        """Containers that were not as planned any more before anything was done to them, if the step failed for that.

        As ``namespace/pod/container``.
        """
        found = (self.payload or {}).get(CHANGED) if self.mark is Mark.FAILED else None
        return tuple(map(str, found)) if isinstance(found, list) else ()


_KEEPING = frozenset({Step.SAVE_STATE, Step.PIN_STATIC_PODS, Step.REWRITE_HASHES, Step.SET_ARGUMENTS})
"""Steps that keep what they change: stored metadata of containers, whole files."""


def may_be_lost(record: Record) -> bool:
    """Whether a power cut may take a record away without harm, as long as everything after it goes too.

    That a step is done, undone or held is known again by looking or by doing it once more; what a step is about to
    do, that one failed, the commit and the end are not.
    """
    return record.mark in {Mark.DONE, Mark.UNDONE, Mark.HELD} and record.step is not Step.VERIFY


@dataclass(frozen=True, slots=True)
class Journal:
    """All records of one run, oldest first."""

    records: tuple[Record, ...] = ()

    def mark(self, step: Step) -> Mark | None:
        """The newest mark of a step."""
        return next((r.mark for r in reversed(self.records) if r.step is step), None)

    def payload(self, step: Step) -> Mapping[str, JsonValue] | None:
        """Before-images of a step: those of its *first* announcement, taken before any effect."""
        return next((r.payload for r in self.records if r.step is step and r.mark is Mark.DOING), None)

    def first(self, step: Step, mark: Mark) -> Record | None:
        """The oldest record with this step and mark."""
        return next((r for r in self.records if r.step is step and r.mark is mark), None)

    def count(self, step: Step, mark: Mark) -> int:
        """How many records have this step and mark."""
        return sum(1 for r in self.records if r.step is step and r.mark is mark)

    @property
    def last(self) -> Record | None:
        """The newest record."""
        return self.records[-1] if self.records else None

    @property
    def kubelet_started_at(self) -> str | None:
        """When, at the latest, the kubelet was started that runs in the end; ``None`` if none was ever stopped."""
        starts = {(Step.START_KUBELET, Mark.DOING), (Step.START_KUBELET, Mark.DONE)}
        starts |= {(Step.STOP_KUBELET, Mark.UNDOING), (Step.STOP_KUBELET, Mark.UNDONE)}
        return next((r.at for r in reversed(self.records) if (r.step, r.mark) in starts), None)

    @property
    def finished(self) -> Record | None:
        """The record that ended the run, if it has ended."""
        return next((r for r in self.records if r.mark is Mark.FINISHED), None)

    def with_record(self, record: Record) -> "Journal":
        """This journal and one more record."""
        return replace(self, records=(*self.records, record))


def scrubbed(journal: Journal) -> Journal:
    """A journal whose run is over, without what steps kept for their undoing; that may be anybody's secret.

    What was done, when, to what and why stays. After a run that could not be undone everything stays: somebody needs
    it to repair the node.
    """
    finished = journal.finished
    if finished is None or (finished.payload or {}).get("outcome") == Outcome.DEGRADED:
        return journal
    return Journal(tuple(_without_images(record) for record in journal.records))


def _without_images(record: Record) -> Record:
    if record.step not in _KEEPING or record.payload is None:
        return record
    return replace(record, payload={name: _emptied(image) for name, image in record.payload.items()})


def _emptied(image: JsonValue) -> JsonValue:
    """Of the contents of a file nothing, of an image of the runtime's everything but its bytes."""
    return image | {"data": ""} if isinstance(image, dict) else None


def render(record: Record) -> bytes:
    """One record as one line, ending in a newline, protected by a checksum."""
    body = json.dumps(to_json(record, strict=True), separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    return f"{zlib.crc32(body.encode()):08x} {body}\n".encode()


def parse(data: bytes) -> tuple[Journal, int]:
    """Read a journal.

    Returns:
        The journal, and how many bytes of ``data`` hold whole records. A torn last line (the trace of a crash
        in the middle of an append, whose effect therefore never started) is not counted.

    Raises:
        Inconsistent: a line other than the last is damaged, a number is missing, or a newer version of this
            program wrote it. Nothing is guessed.
    """
    records: list[Record] = []
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        line = data[offset:] if end < 0 else data[offset:end]
        is_last = end < 0 or end == len(data) - 1
        record = None if end < 0 else _parse_line(line)
        if record is None:
            if is_last:
                return Journal(tuple(records)), offset
            raise Inconsistent(f"journal record {len(records) + 1} is damaged, and it is not the last one")
        if record.seq != len(records) + 1:
            raise Inconsistent(f"journal record {len(records) + 1} is missing; found number {record.seq}")
        records.append(record)
        offset = end + 1
    return Journal(tuple(records)), offset


@lru_cache(maxsize=1024)
def _parse_line(line: bytes) -> Record | None:
    """One record; ``None`` if it is damaged. A journal is read again at every look, and its lines stay as they are."""
    checksum, separator, body = line.partition(b" ")
    if not separator or checksum != f"{zlib.crc32(body):08x}".encode():
        return None
    document = json.loads(body)
    if document.get("schema") != JOURNAL_SCHEMA:
        raise Inconsistent(
            f"the journal has schema {document.get('schema')}, this program knows {JOURNAL_SCHEMA}: "
            "finish the run with the version that started it"
        )
    try:
        return from_json(Record, document, strict=True)
    except MalformedFileError as error:
        raise Inconsistent(f"journal record cannot be read: {error}") from error
