"""Packages and their records in dpkg's database. The files of dpkg are its interface: deb(5), dpkg-query(1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NewType

from nodeupgrade.api.limits import shorten
from nodeupgrade.errors import StepFailed
from nodeupgrade.text import lines as lines_of
from nodeupgrade.text import trimmed, words

Selection = NewType("Selection", str)
"""The wanted state of a package: ``install``, ``hold``, ``deinstall``, ``purge`` or ``unknown``."""
HELD = Selection("hold")
SELECTIONS = frozenset({"install", "hold", "deinstall", "purge", "unknown"})
DPKG, RPM = "dpkg", "rpm"
DATABASE = PurePosixPath("/var/lib/dpkg")
STATUS = DATABASE / "status"
INFO = DATABASE / "info"
UPDATES = DATABASE / "updates"
"""Holds changes that dpkg has not written into STATUS yet; empty unless it runs, or was interrupted."""
DIVERSIONS = DATABASE / "diversions"
LOCKS = (DATABASE / "lock-frontend", DATABASE / "lock")
"""Locked while the database is in use: the first one by apt and the like, the second one by dpkg itself."""
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
    held: bool = False  # whether upgrades of the system leave it unchanged

    @property
    def specific(self) -> str:
        """Its name in dpkg's database, with the architecture where that is needed."""
        return self.name if self.architecture in _ANY else f"{self.name}:{self.architecture}"

    def __str__(self) -> str:
        return f"{' '.join(filter(None, (self.name, self.version)))} ({self.manager})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DpkgState:
    """Whether dpkg's database can be changed now."""

    runs: bool = True  # whether dpkg can be run
    interrupted: bool = False  # whether an earlier run of dpkg was cut off, so that its records may be wrong
    user: str = ""  # the process that uses the database; empty if none does


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRecord:
    """The record of an installed package."""

    selection: Selection
    version: str
    architecture: str


def record_of(status: bytes, name: str, architecture: str = "") -> PackageRecord | None:
    """Return the record of a package in STATUS, of any or one architecture; ``None`` if it is not installed.

    Raises:
        StepFailed: its record cannot be read.
    """
    for fields in _stanzas(status, name):
        match words(fields.get("Status", "unknown ok not-installed")):
            case [wanted, _, state] if wanted in SELECTIONS:
                version, built_for = fields.get("Version", ""), fields.get("Architecture", "")
            case other:
                raise StepFailed(f"cannot read dpkg's record of {name}: its Status is {shorten(' '.join(other), 80)!r}")
        if architecture in _ANY | {built_for} and state not in _NOT_THERE:
            return PackageRecord(selection=Selection(wanted), version=version, architecture=built_for)
    return None


def _stanzas(status: bytes, name: str) -> Iterator[Mapping[str, str]]:
    wanted = f"Package: {name}"
    for stanza in status.decode(errors="replace").split("\n\n"):
        if wanted in stanza:
            lines = (line for line in lines_of(stanza) if not line.startswith((" ", "\t")))
            fields = {key: trimmed(value) for key, _, value in (line.partition(":") for line in lines)}
            if fields.get("Package") == name:
                yield fields
