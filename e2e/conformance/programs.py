"""The programs of a Kubernetes release that run its specs, built from its Go module."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import paths
from e2e.lab.binaries import gobuild
from e2e.lab.binaries.versions import Version
from e2e.lab.locking import locked
from e2e.lab.progress import Progress

_SOURCE = Path(__file__).with_name("suite.go")
_OF_THE_RELEASE = ("test/images/agnhost", "test/images/nonewprivs")


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one release, in a directory."""

    directory: Path

    @property
    def suite(self) -> Path:
        """The specs, with the flags of upstream's ``e2e.test``."""
        return self.directory / "suite"

    @property
    def agnhost(self) -> Path:
        """What most specs run in their pods."""
        return self.directory / "agnhost"

    @property
    def nonewprivs(self) -> Path:
        """What prints its effective user."""
        return self.directory / "nonewprivs"


def ensure(version: Version, progress: Progress) -> Programs:
    """Return the programs of a release, building them if they are not cached (minutes).

    Raises:
        LabError: Go fails.
    """
    source = _SOURCE.read_text()
    made_of = hashlib.sha256("\0".join((gobuild.RECIPE, *_OF_THE_RELEASE, source)).encode()).hexdigest()[:16]
    target = paths.cache_root() / "conformance" / f"{version}-{made_of}"
    with locked(f"conformance-{version}", progress):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as directory:
                fresh, scratch = Path(directory) / "programs", Path(directory) / "go"
                fresh.mkdir()
                own = {"suite": source}
                gobuild.build(version, _OF_THE_RELEASE, fresh, scratch, progress, own=own)
                fresh.rename(target)
    return Programs(target)
