"""The package manager of one node. Only dpkg can hold a package; rpm is asked whose a file is."""

from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.node.host.packages.dpkg import DpkgState, Package, Selection


class PackagesView(Protocol):
    """Reads what dpkg has on record, without running it, and asks rpm."""

    def rpm_owners(self, path: PurePosixPath) -> tuple[str, ...] | None:
        """Return the names of the rpm packages that a file belongs to; ``None`` if rpm does not tell."""

    def state(self) -> DpkgState:
        """Return whether something can be entered now.

        Raises:
            StepFailed: it cannot be found out.
        """

    def selection(self, package: Package) -> Selection | None:
        """Return what is wanted of a package; ``None`` if it is not installed.

        Raises:
            StepFailed: it cannot be read.
        """


class Packages(PackagesView, Protocol):
    """Changes it, too."""

    def select(self, package: Package, selection: Selection) -> None:
        """Enter what is wanted of a package. Idempotent; if it is interrupted, it has happened or has not.

        Raises:
            Transient: somebody else works with the database, and does not stop within seconds.
            StepFailed: it is not on record afterwards.
        """
