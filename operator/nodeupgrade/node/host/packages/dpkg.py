"""Packages, and what dpkg and rpm have on record. The files of dpkg are its interface: deb(5), dpkg-query(1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NewType

Selection = NewType("Selection", str)
"""What is wanted of a package, as dpkg calls it: ``install``, ``hold``, ``deinstall``, ``purge`` or ``unknown``."""
HELD = Selection("hold")
DPKG, RPM = "dpkg", "rpm"
DATABASE = PurePosixPath("/var/lib/dpkg")
STATUS = DATABASE / "status"
INFO = DATABASE / "info"
UPDATES = DATABASE / "updates"
"""Where dpkg keeps what it has not written into STATUS yet; empty unless it works, or was interrupted."""
DIVERSIONS = DATABASE / "diversions"
LOCKS = (DATABASE / "lock-frontend", DATABASE / "lock")
"""Locked by whoever works with the database: the first one by apt and the like, the second one by dpkg itself."""
PROGRAM = PurePosixPath("/usr/bin/dpkg")

_ANY = frozenset({"", "all"})
_NOT_THERE = frozenset({"not-installed", "config-files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The package that a program belongs to."""

    manager: str  # dpkg or rpm
    name: str
    version: str = ""  # empty if unknown
    architecture: str = ""  # as dpkg has it on record; empty if unknown
    held: bool = False  # whether upgrades of the system leave it as it is

    @property
    def specific(self) -> str:
        """Its name in the database of dpkg, which may have one of this name for each architecture."""
        return self.name if self.architecture in _ANY else f"{self.name}:{self.architecture}"

    def __str__(self) -> str:
        return f"{' '.join(filter(None, (self.name, self.version)))} ({self.manager})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DpkgState:
    """Whether something can be entered into the database of dpkg now."""

    runs: bool = True  # whether there is a program that does it
    # whether an earlier run of dpkg was cut off, so that what is on record may not be what is true
    interrupted: bool = False
    user: str = ""  # who works with the database; empty if nobody does


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRecord:
    """What dpkg has on record about a package that is installed."""

    selection: Selection
    version: str
    architecture: str


def record_of(status: bytes, name: str, architecture: str = "") -> PackageRecord | None:
    """Return what STATUS has on record about a package of any or one architecture; ``None`` if it is not installed."""
    for fields in _stanzas(status, name):
        words = fields.get("Status", "").split()
        found = PackageRecord(
            selection=Selection(words[0] if words else ""),
            version=fields.get("Version", ""),
            architecture=fields.get("Architecture", ""),
        )
        if architecture in _ANY | {found.architecture} and words[-1:] and words[-1] not in _NOT_THERE:
            return found
    return None


def _stanzas(status: bytes, name: str) -> Iterator[Mapping[str, str]]:
    wanted = f"Package: {name}"
    for stanza in status.decode(errors="replace").split("\n\n"):
        if wanted in stanza:
            lines = (line for line in stanza.splitlines() if not line.startswith((" ", "\t")))
            fields = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
            if fields.get("Package") == name:
                yield fields
