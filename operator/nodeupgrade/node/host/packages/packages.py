"""The ports to a node's package managers. Only dpkg can hold a package; rpm only names the owners of files."""

from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.node.host.packages.dpkg_database import DpkgState, Package, Selection


class PackagesView(Protocol):
    """Reads dpkg's records without running dpkg, and queries rpm."""

    def rpm_owners(self, path: PurePosixPath) -> tuple[str, ...] | None:
        """Return the names of the rpm packages that a file belongs to; ``None`` if rpm's answer is unclear."""

    def state(self) -> DpkgState:
        """Return whether dpkg's database can be changed now.

        Raises:
            StepFailed: this is unknown.
        """

    def selection(self, package: Package) -> Selection | None:
        """Return the selection of a package; ``None`` if it is not installed.

        Raises:
            StepFailed: it cannot be read.
        """


class Packages(PackagesView, Protocol):
    """Changes dpkg's records, too."""

    def select(self, package: Package, selection: Selection) -> None:
        """Record the selection of a package. Idempotent; if interrupted, it is recorded completely or not at all.

        Raises:
            Transient: another process uses the database for longer than some seconds.
            StepFailed: the selection is not on record afterwards.
        """
