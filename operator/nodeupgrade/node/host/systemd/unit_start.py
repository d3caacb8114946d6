"""Everything that the start of a unit reads, recorded at planning, so that a change is cheap to detect."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.systemd.drop_ins import is_own_drop_in
from nodeupgrade.node.host.systemd.start_obstacles import StartObstacles
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus

_GENERATED = "/run/systemd/generator"
"""Files below it are generated again at each ``daemon-reload``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStart:
    """How a unit is started."""

    unit: str
    program: str  # path of the program that systemd runs
    commands: tuple[UnitCommand, ...]  # every command that systemd runs for the unit, the program's included
    # the unit's files, environment files, programs and scripts of other commands, and what the program itself reads.
    # By path: the digest of a file, the names in a directory or of a pattern, or empty if there is none.
    files: Mapping[str, str]
    digest: Digest | None = None  # digest of the program, unless the run swaps it
    # whether its stop ends no other process of its cgroup, and the units that stop with it
    spares_others: bool = False
    bound_by: tuple[str, ...] = ()
    obstacles: StartObstacles = StartObstacles()  # what kept it from being started when the run was planned


def unit_files(unit: UnitStatus) -> tuple[str, ...]:
    """Return the files that define how a unit is started, without the drop-ins of a run."""
    named = (unit.fragment_path, *unit.drop_ins, *(path for path, _ in unit.environment_files))
    return tuple(path for path in named if path and not path.startswith(_GENERATED) and not is_own_drop_in(path))


def differences(planned: UnitStart, now: UnitStart, *, override: str | None = None) -> Iterator[str]:
    """Describe each difference; ``override`` is this run's own drop-in, which replaces the command line."""
    for path in sorted(planned.files.keys() | now.files.keys()):
        if path != override and planned.files.get(path, "") != now.files.get(path, ""):
            yield f"{path} was changed"
    ignored = set() if override is None else {"ExecStart"}
    before, after = ({c for c in start.commands if c.when not in ignored} for start in (planned, now))
    yield from (f"unit {now.unit} has {command} now" for command in sorted(after - before, key=str))
    yield from (f"unit {now.unit} has no {command} any more" for command in sorted(before - after, key=str))
