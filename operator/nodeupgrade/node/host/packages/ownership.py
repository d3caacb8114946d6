"""Finds the package that a program belongs to, in the databases of dpkg and rpm."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from nodeupgrade.node.host.packages.dpkg_database import DPKG, HELD, RPM, Package, record_of
from nodeupgrade.text import lines as split_lines
from nodeupgrade.text import number, trimmed, words

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
        diversions: three lines for each file that packages install elsewhere: its name, the new name, the package.
        status: the records of all packages; one without a record is not held.
    """
    names = listed_as(program)
    wanted = frozenset(str(name).encode(errors="surrogateescape") for name in names)
    owner = next((path.name.removesuffix(".list") for path, text in lists if wanted & frozenset(text.split(b"\n"))), "")
    diverted = diversions.split(b"\n")[::3]
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
    """Return the assumed packages of a program where rpm manages the system and its answer is unclear.

    Files below /usr come from packages, except those in /usr/local.
    """
    system = any(name.is_relative_to("/usr") and not name.is_relative_to(LOCAL) for name in listed_as(program))
    return (KUBELET,) if system else ()


def _locks(text: str, package: str) -> bool:
    """Report whether a list of locked packages, or the exclusions of a configuration, name a package."""
    for line in split_lines(text):
        key, equals, value = line.partition("=")
        word = trimmed(key).lower()
        if equals and word in {"exclude", "excludepkgs"}:
            names = words(value.replace(",", " "))
            if any(fnmatchcase(package, name) for name in names):
                return True
        if equals and word == "name" and trimmed(value) == f'"{package}"':  # dnf 5 keeps locks as TOML
            return True
        entry = trimmed(line)
        if not equals and not entry.startswith(("#", "!")) and _is_locked_by(entry, package):
            return True
    return False


def _is_locked_by(entry: str, package: str) -> bool:
    """Report whether an entry such as ``kubelet-0:1.30.14-1.*`` locks a package, in either order of its parts."""
    epochless = entry.partition(":")[2] if number(entry[:1]) is not None else entry
    rest = epochless.removeprefix(f"{package}-")
    return rest != epochless and (number(rest[:1]) is not None or rest[:1] == "*")


_RPM_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
RPM_QUERY = ("/usr/bin/rpm", "--query", "--queryformat", "%{NAME}\\n", "--file")


def parse_owners(path: PurePosixPath, status: int, output: str, errors: str = "") -> tuple[str, ...] | None:
    """Return a file's packages from the exit status and the English output of RPM_QUERY.

    ``None`` if the answer is unclear: rpm also reports that no package owns a file if it could not read its database.
    """
    lines = tuple(output.split("\n")[:-1])
    if status == 1 and lines == (f"file {path} is not owned by any package",):
        return None if "error:" in errors else ()
    return lines if status == 0 and lines and all(map(_RPM_NAME.fullmatch, lines)) else None
