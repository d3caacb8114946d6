"""Everything that a start of a unit reads, recorded when the run is planned, so that a change is cheap to detect."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus

_OURS = re.compile(r"\d\d-nodeupgrade-\w+\.conf|zz-nodeupgrade-\w+\.conf")
_GENERATED = "/run/systemd/generator"
"""Files below it are generated again at each ``daemon-reload``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStart:
    """How a unit is started."""

    unit: str
    program: str  # path of the program that systemd runs
    commands: tuple[UnitCommand, ...]  # every command that systemd runs for the unit, the program's included
    # what affects the start: the unit's files, its environment files, programs and scripts that other commands run, and
    # what the program reads itself. By path: the digest of a file, the names in a directory or of a pattern, or an
    # empty string if there is none.
    files: Mapping[str, str]
    digest: Digest | None = None  # digest of the program, unless the run swaps it


def unit_files(unit: UnitStatus) -> tuple[str, ...]:
    """Return the files that define how a unit is started, without a run's own temporary drop-ins."""
    named = (unit.fragment_path, *unit.drop_ins, *(path for path, _ in unit.environment_files))
    return tuple(path for path in named if path and not path.startswith(_GENERATED) and not is_ours(path))


def is_ours(path: str) -> bool:
    """Report whether a drop-in is one that a run adds and removes."""
    return _OURS.fullmatch(PurePosixPath(path).name) is not None


USUAL_DROP_IN, OF_DROP_IN = "90-nodeupgrade.conf", ".nodeupgrade.conf"


def last_drop_in(unit: UnitStatus) -> str:
    """Return the name of a drop-in that applies after all others, since one that sets ExecStart would replace ours.

    systemd applies drop-ins in the order of their names, whatever directory they are in. One of ``spec.files`` may not
    set ExecStart.
    """
    last = max((PurePosixPath(path).name for path in unit.drop_ins if not is_ours(path)), default="")
    if last <= USUAL_DROP_IN:
        return USUAL_DROP_IN
    # One of an earlier run is replaced, also where the drop-in that it came after is gone.
    return last if last.endswith(OF_DROP_IN) else last.removesuffix(".conf") + OF_DROP_IN


OWN_CHANGE = PurePosixPath("/var/lib/nodeupgrade/drop-ins.json")
"""On the node, beside the runs; without it, any change of the directory may be somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnChange:
    """The last change that a run made to a directory of drop-ins."""

    directory: str
    changed: float  # when the directory was changed by it, as the filesystem has it
    before: float  # when it had been changed before by anybody else; 0 if it did not exist

    def foreign(self, directory: str, changed: float) -> float:
        """Return when somebody else last changed a directory, given when it was changed last."""
        return self.before if (directory, changed) == (self.directory, self.changed) else changed


NO_CHANGE = OwnChange(directory="", changed=0.0, before=0.0)


def differences(planned: UnitStart, now: UnitStart, *, override: str | None = None) -> Iterator[str]:
    """Describe each difference; ``override`` is this run's own drop-in, which replaces the command line."""
    for path in sorted(planned.files.keys() | now.files.keys()):
        if path != override and planned.files.get(path, "") != now.files.get(path, ""):
            yield f"{path} was changed"
    ignored = set() if override is None else {"ExecStart"}
    before, after = ({c for c in start.commands if c.when not in ignored} for start in (planned, now))
    yield from (f"unit {now.unit} has {command} now" for command in sorted(after - before, key=str))
    yield from (f"unit {now.unit} has no {command} any more" for command in sorted(before - after, key=str))
