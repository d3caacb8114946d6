"""A row of the table: what is done to a machine, and how it ended."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from e2e.lab.machines.machine import Machine
from e2e.machines.stage import Stage, Upgraded
from e2e.rows import Result

HEADING = """\
| machine | what | NodeUpgrade | containers | disturbed | seen |
|---|---|---|---|---|---|"""
_NOT = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a row has shown."""

    run: Upgraded | None = None  # the NodeUpgrade that it is about; None for a control, or where the node restarted
    ended: str = ""  # how it ended; as ``run`` by default
    containers: int | None = None  # how many ran before; those of ``run`` by default
    disturbed: int | None = None  # how many instances were not the same afterwards; those of ``run`` by default
    said: str = ""  # what else was seen, for the table
    complaints: Iterable[str] = ()  # what is not as it must be


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of machine."""

    name: str  # for the command line and the table
    machine: Machine  # the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is done."""

    name: str  # for the command line
    does: str  # what is done, for the table
    play: Callable[[Stage], Seen]  # does it
    kind: Kind  # on which kind of machine


def result(row: Row, seen: Seen, seconds: float) -> Result:
    """Return what a row has shown, as text."""
    run = seen.run
    ended = seen.ended or (_NOT if run is None else run.ended)
    containers = seen.containers if seen.containers is not None else run and run.containers
    lost = seen.disturbed if seen.disturbed is not None else run and len(run.disturbed)
    cells = (
        row.kind.name,
        row.does,
        ended,
        *(_NOT if count is None else str(count) for count in (containers, lost)),
        seen.said,
    )
    complaints = tuple(complaint.replace("\n", " ").replace("|", "/") for complaint in seen.complaints)
    return Result(row=row.name, cells=cells, seconds=seconds, complaints=complaints)
