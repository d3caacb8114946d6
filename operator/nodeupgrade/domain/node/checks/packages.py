"""The check that no package manager undoes the upgrade, and how its databases are read."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import assert_never

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.domain.check import check
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.checks.surroundings import HostSurroundings
from nodeupgrade.domain.node.packages import DPKG, HELD, PROGRAM, RPM, DpkgState, Package, record_of

MERGED = ("bin", "sbin", "lib", "lib64")
"""Directories of / that are links into /usr on most systems; a package may list its files under either name."""
LOCAL = PurePosixPath("/usr/local")
KUBELET = "kubelet"
"""The name of the package in rpm repositories of Kubernetes and its distributions."""


@check(Reason.KUBELET_FROM_PACKAGE, Reason.NODE_IN_OTHER_HANDS)
def package_manager_leaves_the_kubelet(facts: HostSurroundings) -> Iterator[Finding]:
    """No package manager would put another kubelet in place: it belongs to no package, or that one is or can be held.

    ``kubelet.package: Ignore`` makes it a warning, ``Hold`` has the run hold the package where dpkg allows that. The
    file differs from its package after the upgrade in any case, which is said, too.
    """
    package = facts.package
    if package is None:
        return
    owner = f"{facts.program} belongs to package {package}"
    if facts.package_assumed:
        owner = f"rpm could not be asked whose {facts.program} is, so that it is taken to belong to package {package}"
    if package.held:
        detail = f"{owner}, which is held; it will differ from what {package.manager} has on record"
        remedy = "install the package of the same version afterwards and hold it again, so that the records agree"
        yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, remedy=remedy, severity=Severity.WARN)
        return
    match facts.package_policy:
        case PackagePolicy.HOLD:
            yield _holding(facts.dpkg, package, owner)
        case PackagePolicy.REFUSE | PackagePolicy.IGNORE as policy:
            severity = Severity.WARN if policy is PackagePolicy.IGNORE else None
            detail = f"{owner}, which is not held: its next upgrade or reinstallation puts another kubelet there"
            yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, severity=severity)
        case never:
            assert_never(never)


def _holding(dpkg: DpkgState | None, package: Package, owner: str) -> Finding:
    """Return that a run will hold the package, or why it cannot."""
    reason, unheld = Reason.KUBELET_FROM_PACKAGE, f"{owner}, which is not held"
    if package.manager != DPKG or dpkg is None:
        detail = f"{unheld}, and only packages of dpkg can be held by a run"
        return Finding(reason=reason, detail=detail, remedy=f"run dnf versionlock add {package.name}")
    if not package.version:
        detail = f"{unheld} and cannot be: dpkg lists its files, but does not have it on record as installed"
        return Finding(reason=reason, detail=detail, remedy="install the package anew")
    if dpkg.user:
        detail = f"{unheld} and cannot be now: {dpkg.user} works with the database of dpkg"
        return Finding(reason=Reason.NODE_IN_OTHER_HANDS, detail=detail)
    if dpkg.interrupted:
        detail = f"{unheld} and cannot be: dpkg was interrupted, so that what it has on record may not be true"
        return Finding(reason=reason, detail=detail, remedy="run dpkg --configure -a")
    if not dpkg.runs:
        detail = f"{unheld} and cannot be: there is no {PROGRAM} on the node"
        return Finding(reason=reason, detail=detail, remedy="set kubelet.package: Ignore")
    detail = f"{owner}, which will be held and stays held (apt-mark unhold {package.specific} takes it back)"
    return Finding(reason=reason, detail=detail, remedy="", severity=Severity.WARN)


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
        program: Its path.
        lists: Each package's list of files: ``info/NAME[:ARCHITECTURE].list``.
        diversions: Three lines for each file that packages install elsewhere: its name, the other name, by whom.
        status: What dpkg knows of every package.
    """
    names = listed_as(program)
    wanted = frozenset(str(name).encode() for name in names)
    owner = next((path.name.removesuffix(".list") for path, text in lists if wanted & frozenset(text.split(b"\n"))), "")
    diverted = diversions.splitlines()[::3]
    if not owner or wanted & frozenset(diverted):
        return None
    name, _, architecture = owner.partition(":")
    return _as_recorded(name, architecture, status)


def _as_recorded(name: str, architecture: str, status: bytes) -> Package:
    """Return a package with its version and whether it is held; one that is not on record is not."""
    found = record_of(status, name, architecture)
    if found is None:
        return Package(manager=DPKG, name=name)
    held = found.selection == HELD
    return Package(manager=DPKG, name=name, version=found.version, architecture=found.architecture, held=held)


def owner_by_rpm(owners: tuple[str, ...], locks: Iterable[bytes]) -> Package | None:
    """Return the package that a program belongs to where rpm manages the system; the first one that is not held.

    Args:
        owners: Names of the packages that it belongs to.
        locks: Lists of locked packages, and configuration in which packages are excluded.
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
