"""The simulated node's package manager."""

from collections.abc import Mapping, MutableMapping
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.packages.dpkg_database import PROGRAM, STATUS, DpkgState, Package, Selection, record_of
from nodeupgrade.node.host.retries import translate_errors
from tests.doubles.node.calls import Calls


class SimulatedPackages:
    """Implements node.host.packages.packages.Packages over dpkg's list of packages on a simulated disk.

    Attributes:
        user: who has locked the database; empty if nobody has.
        interrupted: whether an earlier run was cut off.
        by_rpm: what rpm says about files, by path; ``None`` if it cannot be asked.
    """

    def __init__(self, disk: MutableMapping[str, bytes], calls: Calls) -> None:
        self.user = ""
        self.interrupted = False
        self.by_rpm: Mapping[str, tuple[str, ...]] | None = None
        self._disk = disk
        self._calls = calls

    def rpm_owners(self, path: PurePosixPath) -> tuple[str, ...] | None:
        """What rpm says."""
        self._calls.read(f"packages.rpm_owners {path}")
        return None if self.by_rpm is None else self.by_rpm.get(str(path), ())

    def state(self) -> DpkgState:
        """Whether it can be changed now."""
        self._calls.read("packages.state")
        return DpkgState(runs=str(PROGRAM) in self._disk, interrupted=self.interrupted, user=self.user)

    def selection(self, package: Package) -> Selection | None:
        """What is wanted of a package; ``None`` if it is not installed."""
        self._calls.read(f"packages.selection {package.name}")
        found = record_of(self._status(), package.name, package.architecture)
        return None if found is None else found.selection

    def select(self, package: Package, selection: Selection) -> None:
        """Write the list anew, with one line changed."""
        with self._calls.effect(f"packages.select {package.name} {selection}"):
            if self.user:
                raise Transient(f"{self.user} is using the database of dpkg and has locked it")
            status = self._status().decode()
            if str(PROGRAM) not in self._disk or record_of(status.encode(), package.name, package.architecture) is None:
                raise StepFailed(f"dpkg has nothing on record for {package.specific}")
            stanzas = (_selected(stanza, package, selection) for stanza in status.split("\n\n"))
            self._disk[str(STATUS)] = "\n\n".join(stanzas).encode()

    def _status(self) -> bytes:
        with translate_errors(f"cannot read {STATUS}"):
            return self._disk.get(str(STATUS), b"")


def _selected(stanza: str, package: Package, selection: Selection) -> str:
    if record_of(stanza.encode(), package.name, package.architecture) is None:
        return stanza
    lines = (
        f"Status: {selection} {line.split(maxsplit=2)[2]}" if line.startswith("Status: ") else line
        for line in stanza.split("\n")
    )
    return "\n".join(lines)
