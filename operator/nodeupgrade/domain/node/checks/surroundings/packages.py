"""The check that no package manager undoes the upgrade, and how its databases are read."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import PackagePolicy
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.checks.surroundings.facts import HostSurroundings, Package

MERGED = ("bin", "sbin", "lib", "lib64")
"""Directories of / that are links into /usr on most systems; a package may list its files under either name."""
LOCAL = PurePosixPath("/usr/local")
KUBELET = "kubelet"
"""The name of the package in rpm repositories of Kubernetes and its distributions, and the word in their locks."""


@check(Reason.KUBELET_FROM_PACKAGE)
def package_manager_leaves_the_kubelet(facts: HostSurroundings) -> Iterator[Finding]:
    """No package manager would put another kubelet in place: the program belongs to no package, or that one is held.

    ``kubelet.package: Ignore`` makes it a warning. The file differs from its package after the upgrade in any case,
    which is said, too.
    """
    package = facts.package
    if package is None:
        return
    owner = f"{facts.program} belongs to package {package}"
    if package.held:
        detail = f"{owner}, which is held; it will differ from what {package.manager} has on record"
        remedy = "install the package of the same version afterwards and hold it again, so that the records agree"
        yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, remedy=remedy, severity=Severity.WARN)
        return
    ignored = facts.package_policy is PackagePolicy.IGNORE
    detail = f"{owner}, which is not held: its next upgrade or reinstallation puts another kubelet there"
    yield Finding(reason=Reason.KUBELET_FROM_PACKAGE, detail=detail, severity=Severity.WARN if ignored else None)


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
    return _as_recorded(owner.partition(":")[0], status)


def _as_recorded(name: str, status: bytes) -> Package:
    """Return a package with its version and whether it is held; one that is not on record is not."""
    for stanza in status.decode(errors="replace").split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in stanza.splitlines() if not line.startswith((" ", "\t")))
        if fields.get("Package") == name:
            held = fields.get("Status", "").split()[:1] == ["hold"]
            return Package(manager="dpkg", name=name, version=fields.get("Version", ""), held=held)
    return Package(manager="dpkg", name=name)


def owner_by_rpm(program: PurePosixPath, locks: Iterable[bytes]) -> Package | None:
    """Return the package that a program is taken to belong to where rpm manages the system.

    rpm's database is not read: it has three formats, one of them without a library. Outside of /usr/local, what is
    below /usr comes from packages, so that a program there is taken to.

    Args:
        program: Its path.
        locks: Lists of locked packages, and configuration in which packages are excluded.
    """
    system = any(name.is_relative_to("/usr") and not name.is_relative_to(LOCAL) for name in listed_as(program))
    held = any(_locks(text.decode(errors="replace")) for text in locks)
    return Package(manager="rpm", name=KUBELET, held=held) if system else None


def _locks(text: str) -> bool:
    """Report whether a list of locked packages, or the exclusions of a configuration, name the kubelet."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        word = key.strip().lower()
        if equals and word in {"exclude", "excludepkgs"}:
            names = value.replace(",", " ").split()
            if any(name in {KUBELET, f"{KUBELET}*", "kube*", "*"} for name in names):
                return True
        if equals and word == "name" and value.strip() == f'"{KUBELET}"':  # dnf 5 keeps locks as TOML
            return True
        entry = line.strip()
        if not equals and not entry.startswith(("#", "!")) and _of_a_list(entry):
            return True
    return False


def _of_a_list(entry: str) -> bool:
    """Report whether an entry such as ``kubelet-0:1.30.14-1.*`` locks the kubelet, in either order of its parts."""
    epochless = entry.partition(":")[2] if entry[:1].isdigit() else entry
    name, dash, rest = epochless.partition("-")
    return bool(name == KUBELET and dash and (rest[:1].isdigit() or rest[:1] == "*"))
