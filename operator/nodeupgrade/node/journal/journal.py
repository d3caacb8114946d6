"""The journal of one run: what was attempted, what is known to have happened, and how to undo it.

It has one line per record. A record is on disk before its effect starts, with everything that is needed to reverse it.
So the journal covers whatever a crash leaves behind.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import takewhile

from nodeupgrade.api.json import JsonValue, MalformedFileError, from_json, to_json
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.errors import Inconsistent
from nodeupgrade.text import parse_json

JOURNAL_SCHEMA = 1
CHANGED = "changed"
DOUBTFUL = "doubtful"


class Mark(StrEnum):
    """What the journal records about a step."""

    DOING = "doing"
    """The step was announced; it may have happened completely, partly or not at all."""
    DONE = "done"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo-failed"
    HELD = "held"
    """Undoing the step waits for the runtime, with the kubelet fenced."""
    FINISHED = "finished"
    """The run is over; the payload is its report. Belongs to no step."""


class Outcome(StrEnum):
    """How a run ends."""

    UPGRADED = "Upgraded"
    ROLLED_BACK = "RolledBack"
    DEGRADED = "Degraded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of the journal."""

    seq: int  # 1, 2, 3 … without gaps
    mark: Mark
    boot: BootIdentity  # boot during which it was written
    at: str  # wall-clock time, RFC 3339, for display
    monotonic: float  # seconds since boot, for durations within one boot
    step: Step | None = None  # None for records about the whole run
    # before-images for ``doing``; the report for ``finished``; changed containers for ``failed``; for ``undone``, those
    # that the old kubelet may restart and nobody watches
    payload: dict[str, JsonValue] | None = None
    error: str | None = None  # one sentence, for failures
    reason: str | None = None  # fixed reason of a failure
    schema: int = JOURNAL_SCHEMA

    @property
    def known_reason(self) -> Reason:
        """Return its reason; STEP_FAILED if it has none that this version knows."""
        return known_reason(self.reason) or Reason.STEP_FAILED

    @property
    def changed(self) -> tuple[str, ...]:
        """Return the containers that changed before the run touched them, if the step failed because of that.

        Each as ``namespace/pod/container``.
        """
        found = (self.payload or {}).get(CHANGED) if self.mark is Mark.FAILED else None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def doubtful(self) -> Mapping[str, str]:
        """Return the containers that nobody watches and the old kubelet may restart: by ID, their labels."""
        found = (self.payload or {}).get(DOUBTFUL) if self.mark is Mark.UNDONE else None
        return {key: str(label) for key, label in found.items()} if isinstance(found, dict) else {}


_REPEATABLE = frozenset({Mark.DONE, Mark.UNDONE, Mark.HELD})


def may_be_lost(record: Record) -> bool:
    """Report whether a power cut may lose a record without harm, together with everything after it.

    Whether a step is done, undone or held can be determined again, or the step repeated. An announcement, a failure,
    the commit and the end must not be lost.
    """
    return record.mark in _REPEATABLE and record.step is not COMMIT


@dataclass(frozen=True)
class Journal:
    """All records of one run, oldest first."""

    records: tuple[Record, ...] = ()

    @cached_property
    def _newest(self) -> Mapping[Step | None, Mark]:
        return {record.step: record.mark for record in self.records}

    @cached_property
    def _oldest(self) -> Mapping[tuple[Step | None, Mark], Record]:
        return {(record.step, record.mark): record for record in reversed(self.records)}

    def shared_with(self, other: "Journal") -> int:
        """Return with how many of its records another journal begins."""
        pairs = zip(self.records, other.records, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def mark(self, step: Step) -> Mark | None:
        """Return the newest mark of a step."""
        return self._newest.get(step)

    def payload(self, step: Step) -> Mapping[str, JsonValue] | None:
        """Return the before-images of a step: those of its *first* announcement, taken before any effect."""
        announced = self._oldest.get((step, Mark.DOING))
        return None if announced is None else announced.payload

    def first(self, step: Step, mark: Mark) -> Record | None:
        """Return the oldest record with this step and mark."""
        return self._oldest.get((step, mark))

    def count(self, step: Step, mark: Mark) -> int:
        """Return how many records have this step and mark."""
        return sum(1 for r in self.records if r.step is step and r.mark is mark)

    @property
    def next_step(self) -> Step:
        """Return the first step that is not done."""
        return next(step for step in Step if self.mark(step) is not Mark.DONE)

    @property
    def last(self) -> Record | None:
        """Return the newest record."""
        return self.records[-1] if self.records else None

    @property
    def kubelet_started_at(self) -> str | None:
        """Return the latest time at which the final kubelet was started; ``None`` if the kubelet was never stopped."""
        starts = {(Step.START_KUBELET, Mark.DOING), (Step.START_KUBELET, Mark.DONE)}
        starts |= {(Step.STOP_KUBELET, Mark.UNDOING), (Step.STOP_KUBELET, Mark.UNDONE)}
        return next((r.at for r in reversed(self.records) if (r.step, r.mark) in starts), None)

    @property
    def finished(self) -> Record | None:
        """Return the record that ended the run, if it has ended."""
        return next((r for r in self.records if r.mark is Mark.FINISHED), None)

    def with_record(self, record: Record) -> "Journal":
        """Return this journal with one more record."""
        return Journal((*self.records, record))


_LINES = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def render(record: Record) -> bytes:
    """Return a record as one line with a checksum, ending in a newline."""
    body = _LINES.encode(to_json(record, strict=True))
    return f"{zlib.crc32(body.encode()):08x} {body}\n".encode()


def parse(data: bytes) -> tuple[Journal, int]:
    """Read a journal.

    Returns:
        The journal, and how many bytes of ``data`` hold whole records. A torn last line is not counted: a crash
        interrupted the append, so the record's effect never started.

    Raises:
        Inconsistent: a line other than the last is damaged, a number is missing, or a newer version of this
            program wrote it.
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
    """Parse a record; ``None`` if it is damaged. Cached: journals are read often, and lines never change."""
    checksum, separator, body = line.partition(b" ")
    if not separator or checksum != f"{zlib.crc32(body):08x}".encode():
        return None
    document = parse_json(body)
    if document.get("schema") != JOURNAL_SCHEMA:
        raise Inconsistent(
            f"the journal has schema {document.get('schema')}, this program knows {JOURNAL_SCHEMA}: "
            "finish the run with the version that started it"
        )
    try:
        return from_json(Record, document, strict=True)
    except MalformedFileError as error:
        raise Inconsistent(f"journal record cannot be read: {error}") from error
