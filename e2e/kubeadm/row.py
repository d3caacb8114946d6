"""A row of the table: what is done to a cluster, and how it ended."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from e2e.kubeadm.stage import Stage, Upgraded
from e2e.rows import Result

HEADING = """\
| what | NodeUpgrade | containers | disturbed | API servers asked | etcd asked | seen |
|---|---|---|---|---|---|---|"""
_NOT = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a row has shown."""

    run: Upgraded | None = None  # the NodeUpgrade that it is about; None for a control
    containers: int | None = None  # how many ran before; those of ``run`` by default
    disturbed: int | None = None  # how many instances were not the same afterwards; those of ``run`` by default
    said: str = ""  # what else was seen, for the table
    complaints: Iterable[str] = ()  # what is not as it must be


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is done."""

    name: str  # for the command line
    does: str  # what is done, for the table
    play: Callable[[Stage], Seen]  # does it
    control_planes: int = 1  # of the cluster that it needs


def result(row: Row, seen: Seen, seconds: float) -> Result:
    """Return what a row has shown, as text."""
    run = seen.run
    ended = _NOT if run is None else run.ended
    asked = (_NOT, _NOT) if run is None else (str(run.watch.servers), str(run.watch.etcd))
    containers = seen.containers if seen.containers is not None else run and run.containers
    disturbed = seen.disturbed if seen.disturbed is not None else run and len(run.disturbed)
    cells = (row.does, ended, str(containers), str(disturbed), *asked, seen.said)
    return Result(row=row.name, cells=cells, seconds=seconds, complaints=tuple(seen.complaints))
