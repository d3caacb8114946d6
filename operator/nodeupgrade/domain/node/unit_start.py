"""What a start of a unit reads, as it was when the run was planned, so that the last look before a start is cheap."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.domain.node.host import UnitCommand, UnitStatus

_OURS = re.compile(r"\d\d-nodeupgrade-\w+\.conf|zz-nodeupgrade-\w+\.conf")
_GENERATED = "/run/systemd/generator"
"""Below it, files are written anew each time systemd reads its units."""

Files = Mapping[str, str]
"""By path: the digest of a file, the names in a directory, nothing where there is neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStart:
    """How a unit is started.

    Attributes:
        program: path of what systemd runs.
        commands: that, and everything that it runs beside.
        files: all that decides about it: the unit's files, variables, and what the program itself reads.
        digest: of the program, where it is one that the run does not exchange.
    """

    unit: str
    program: str
    commands: tuple[UnitCommand, ...]
    files: Mapping[str, str]
    digest: Digest | None = None


def unit_files(unit: UnitStatus) -> tuple[str, ...]:
    """The files that say how a unit is started, without those that a run itself puts there and takes away."""
    named = (unit.fragment_path, *unit.drop_ins, *(path for path, _ in unit.environment_files))
    return tuple(path for path in named if path and not path.startswith(_GENERATED) and not is_ours(path))


def is_ours(path: str) -> bool:
    """Whether a drop-in is one that a run puts there and takes away."""
    return _OURS.fullmatch(PurePosixPath(path).name) is not None


def differences(planned: UnitStart, now: UnitStart, *, override: str | None = None) -> Iterator[str]:
    """What is not as planned, in words; ``override`` is a drop-in of this run that sets another command line."""
    for path in sorted(planned.files.keys() | now.files.keys()):
        if path != override and planned.files.get(path, "") != now.files.get(path, ""):
            yield f"{path} was changed"
    ignored = set() if override is None else {"ExecStart"}
    before, after = ({c for c in start.commands if c.when not in ignored} for start in (planned, now))
    yield from (f"unit {now.unit} has {command} now" for command in sorted(after - before, key=str))
    yield from (f"unit {now.unit} has no {command} any more" for command in sorted(before - after, key=str))
