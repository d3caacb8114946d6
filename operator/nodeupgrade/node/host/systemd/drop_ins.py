"""The drop-ins of a unit: what they set, which are a run's own, and which applies last."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.text import lines, one_line, trimmed

_OURS = re.compile(r"\d\d-nodeupgrade-\w+\.conf|zz-nodeupgrade-\w+\.conf", re.ASCII)
USUAL_DROP_IN, OF_DROP_IN = "90-nodeupgrade.conf", ".nodeupgrade.conf"
OWN_CHANGE = PurePosixPath("/var/lib/nodeupgrade/drop-ins.json")
"""On the node, beside the runs; without it, any change of the directory counts as foreign."""
HARMLESS = frozenset(
    {
        *("Unit.Description", "Unit.Documentation", "Unit.After", "Unit.Wants"),
        *("Service.CPUAccounting", "Service.MemoryAccounting", "Service.TasksAccounting", "Service.IOAccounting"),
        *("Service.BlockIOAccounting", "Service.IPAccounting", "Service.CPUWeight", "Service.IOWeight"),
        *("Service.LimitNOFILE", "Service.LimitNPROC", "Service.LimitCORE", "Service.LimitMEMLOCK"),
        *("Service.OOMScoreAdjust", "Service.Nice", "Service.TasksMax"),
    }
)
"""Settings that a run may change; others decide which program is started, in which environment, or what it ends."""


def decisive_settings(content: bytes | None) -> tuple[str, ...]:
    """Return the settings that are not HARMLESS, in order, as ``[Section] Key=value``; none without a drop-in."""
    found, section = list[str](), ""
    written = lines((content or b"").decode(errors="surrogateescape"))
    text = "\n".join(line for line in written if trimmed(line)[:1] not in {"#", ";"})  # a comment is not continued
    for line in map(trimmed, lines(text.replace("\\\n", " "))):
        key, _, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif line and f"{section}.{trimmed(key)}" not in HARMLESS:
            found.append(f"[{section}] {trimmed(key)}={one_line(value)}")
    return tuple(found)


def is_own_drop_in(path: str) -> bool:
    """Report whether a drop-in is one that a run adds and removes."""
    return _OURS.fullmatch(PurePosixPath(path).name) is not None


def last_drop_in(unit: UnitStatus) -> str:
    """Return the name of a drop-in that applies after all others, since one that sets ExecStart would replace ours.

    systemd applies drop-ins by name, in whatever directory. One of ``spec.files`` may not set ExecStart.
    """
    last = max((PurePosixPath(path).name for path in unit.drop_ins if not is_own_drop_in(path)), default="")
    if last <= USUAL_DROP_IN:
        return USUAL_DROP_IN
    # The drop-in of an earlier run is replaced, even if the one that it came after is gone.
    return last if last.endswith(OF_DROP_IN) else last.removesuffix(".conf") + OF_DROP_IN


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnChange:
    """The last change that a run made to a directory of drop-ins."""

    directory: str
    changed: float  # when the run changed the directory: its mtime or ctime
    before: float  # when another program had last changed it; 0 if it did not exist

    def foreign(self, directory: str, changed: float) -> float:
        """Return when another program last changed a directory, given its last change."""
        return self.before if (directory, changed) == (self.directory, self.changed) else changed


NO_CHANGE = OwnChange(directory="", changed=0.0, before=0.0)
