"""Stand-ins for kubelets: of versions that the lab does not have, or that shall pass preflight and never come up."""

import hashlib
import os
import tempfile
from pathlib import Path

from e2e.lab import paths
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Quiet

_SOURCE = Path(__file__).with_name("standin.go")
_PLACE = b"stand-in-for-version------------"
_BUILD_SECONDS = 300


def program(version: str, directory: Path) -> Path:
    """Write a stand-in for a version into a directory, and return it: it passes preflight, and exits when started.

    Raises:
        LabError: Go is missing or fails.
    """
    target = directory / "stand-in"
    target.write_bytes(_template().read_bytes().replace(_PLACE, f"v{version}".ljust(len(_PLACE)).encode()))
    target.chmod(0o755)
    return target


def _template() -> Path:
    """Return the program without a version, building it first if necessary."""
    target = paths.cache_root() / "standin" / hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    with locked("standin", Quiet()):
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as scratch:
                caches = {"GOCACHE": f"{scratch}/objects", "GOPATH": f"{scratch}/path"}
                environment = {**os.environ, **caches, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "off"}
                fresh = Path(scratch) / "program"
                argv = ("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(fresh), str(_SOURCE))
                run(*argv, env=environment, timeout=_BUILD_SECONDS)
                fresh.rename(target)
    return target
