"""Everything that a start of a unit reads, recorded when the run is planned, so that a change is cheap to detect."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.domain.node.units.status import UnitCommand, UnitStatus

_OURS = re.compile(r"\d\d-nodeupgrade-\w+\.conf|zz-nodeupgrade-\w+\.conf")
_GENERATED = "/run/systemd/generator"
"""Files below it are generated again at each ``daemon-reload``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStart:
    """How a unit is started.

    Attributes:
        program: path of the program that systemd runs.
        commands: every command that systemd runs for the unit, the program's included.
        files: what affects the start: the unit's files, its environment files, and what the program reads itself. By
            path: the digest of a file, the names in a directory, or an empty string if there is neither.
        digest: digest of the program, unless the run swaps it.
    """

    unit: str
    program: str
    commands: tuple[UnitCommand, ...]
    files: Mapping[str, str]
    digest: Digest | None = None


def unit_files(unit: UnitStatus) -> tuple[str, ...]:
    """Return the files that define how a unit is started, without a run's own temporary drop-ins."""
    named = (unit.fragment_path, *unit.drop_ins, *(path for path, _ in unit.environment_files))
    return tuple(path for path in named if path and not path.startswith(_GENERATED) and not is_ours(path))


def is_ours(path: str) -> bool:
    """Report whether a drop-in is one that a run adds and removes."""
    return _OURS.fullmatch(PurePosixPath(path).name) is not None


def differences(planned: UnitStart, now: UnitStart, *, override: str | None = None) -> Iterator[str]:
    """Describe each difference; ``override`` is this run's own drop-in, which replaces the command line."""
    for path in sorted(planned.files.keys() | now.files.keys()):
        if path != override and planned.files.get(path, "") != now.files.get(path, ""):
            yield f"{path} was changed"
    ignored = set() if override is None else {"ExecStart"}
    before, after = ({c for c in start.commands if c.when not in ignored} for start in (planned, now))
    yield from (f"unit {now.unit} has {command} now" for command in sorted(after - before, key=str))
    yield from (f"unit {now.unit} has no {command} any more" for command in sorted(before - after, key=str))
