"""Packages, and what dpkg and rpm have on record. The files of dpkg are its interface: deb(5), dpkg-query(1)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
_RPM_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
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


# What rpm says about a file. Its database has three formats, so that the program itself is asked (rpm(8)).

RPM_QUERY = ("/usr/bin/rpm", "--query", "--queryformat", "%{NAME}\\n", "--file")


def rpm_owners(path: PurePosixPath, status: int, output: str, errors: str = "") -> tuple[str, ...] | None:
    """Return the packages that a file belongs to, by the exit status and the English output of RPM_QUERY.

    ``None`` if the answer does not tell: rpm says that nobody owns a file also if it could not read its database.
    """
    lines = tuple(output.split("\n")[:-1])
    if status == 1 and lines == (f"file {path} is not owned by any package",):
        return None if "error:" in errors else ()
    return lines if status == 0 and lines and all(map(_RPM_NAME.fullmatch, lines)) else None


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


# To which package a program belongs, from the databases of dpkg and rpm.


MERGED = ("bin", "sbin", "lib", "lib64")
"""Directories of / that are links into /usr on most systems; a package may list its files under either name."""
LOCAL = PurePosixPath("/usr/local")
KUBELET = "kubelet"
"""The name of the package in rpm repositories of Kubernetes and its distributions."""


def listed_as(program: PurePosixPath) -> frozenset[PurePosixPath]:
    """Return the names under which a package may list a program."""
    top = program.parts[1] if len(program.parts) > 1 else ""
    if top in MERGED:
        return frozenset({program, PurePosixPath("/usr") / program.relative_to("/")})
    if top == "usr" and len(program.parts) > 2 and program.parts[2] in MERGED:
        return frozenset({program, PurePosixPath("/") / program.relative_to("/usr")})
    return frozenset({program})


def owner_by_dpkg(
    program: PurePosixPath, lists: Iterable[tuple[PurePosixPath, bytes]], diversions: bytes, status: bytes
) -> Package | None:
    """Return the package that a program belongs to, from dpkg's own files.

    Args:
        lists: each package's list of files: ``info/NAME[:ARCHITECTURE].list``.
        diversions: three lines for each file that packages install elsewhere: its name, the other name, by whom.
        status: what dpkg knows of every package; one that is not on record is not held.
    """
    names = listed_as(program)
    wanted = frozenset(str(name).encode() for name in names)
    owner = next((path.name.removesuffix(".list") for path, text in lists if wanted & frozenset(text.split(b"\n"))), "")
    diverted = diversions.splitlines()[::3]
    if not owner or wanted & frozenset(diverted):
        return None
    name, _, architecture = owner.partition(":")
    if (found := record_of(status, name, architecture)) is None:
        return Package(manager=DPKG, name=name)
    held = found.selection == HELD
    return Package(manager=DPKG, name=name, version=found.version, architecture=found.architecture, held=held)


def owner_by_rpm(owners: tuple[str, ...], locks: Iterable[bytes]) -> Package | None:
    """Return the first of a program's packages that is not held, where rpm manages the system.

    ``locks`` are lists of locked packages, and configuration in which packages are excluded.
    """
    texts = [text.decode(errors="replace") for text in locks]
    packages = [Package(manager=RPM, name=name, held=any(_locks(text, name) for text in texts)) for name in owners]
    return next((package for package in packages if not package.held), packages[0] if packages else None)


def assumed_owners(program: PurePosixPath) -> tuple[str, ...]:
    """Return what a program is taken to belong to where rpm manages the system and does not tell.

    Outside of /usr/local, what is below /usr comes from packages.
    """
    system = any(name.is_relative_to("/usr") and not name.is_relative_to(LOCAL) for name in listed_as(program))
    return (KUBELET,) if system else ()


def _locks(text: str, package: str) -> bool:
    """Report whether a list of locked packages, or the exclusions of a configuration, name a package."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        word = key.strip().lower()
        if equals and word in {"exclude", "excludepkgs"}:
            names = value.replace(",", " ").split()
            if any(fnmatchcase(package, name) for name in names):
                return True
        if equals and word == "name" and value.strip() == f'"{package}"':  # dnf 5 keeps locks as TOML
            return True
        entry = line.strip()
        if not equals and not entry.startswith(("#", "!")) and _of_a_list(entry, package):
            return True
    return False


def _of_a_list(entry: str, package: str) -> bool:
    """Report whether an entry such as ``kubelet-0:1.30.14-1.*`` locks a package, in either order of its parts."""
    epochless = entry.partition(":")[2] if entry[:1].isdigit() else entry
    rest = epochless.removeprefix(f"{package}-")
    return rest != epochless and (rest[:1].isdigit() or rest[:1] == "*")
