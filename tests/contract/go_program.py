"""Builds the Go programs of the contracts, each from a folder of sources and public Go modules."""

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.lab import paths
from e2e.lab.binaries.components import GO, go_is_new_enough
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Quiet

BUILD_SECONDS = 1400


@dataclass(frozen=True)
class GoProgram:
    """A program: its folder, and the files that make it."""

    source: Path
    files: tuple[str, ...] = ("main.go", "go.mod", "go.sum")


def built(program: GoProgram) -> Path:
    """Return the program, built if the cache does not hold it.

    Raises:
        LabError: It cannot be built.
    """
    source = program.source
    content = b"".join((source / name).read_bytes() for name in program.files)
    path = paths.cache_root() / source.name / hashlib.sha256(content).hexdigest()[:16]
    with locked(source.name, Quiet()):
        if not path.is_file():
            _build(source, path)
    return path


def have(program: GoProgram) -> None:
    """Build the program, or skip the test where that cannot be done and is not required."""
    try:
        built(program)
    except LabError as error:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise
        pytest.skip(f"no {program.source.name}: {error}")


def _build(source: Path, program: Path) -> None:
    if not go_is_new_enough():
        raise LabError(f"cannot build {source.name} because there is no Go ≥ {GO[0]}.{GO[1]} on PATH")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"go-{source.name}-", dir=program.parent) as work:
        caches = {name: str(Path(work) / name.lower()) for name in ("GOMODCACHE", "GOCACHE", "GOPATH")}
        flags = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false", "GOWORK": "off"}
        fresh = Path(work) / source.name
        build = ("nice", "-n", "5", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(fresh), ".")
        run(*build, cwd=source, env={**os.environ, **caches, **flags}, timeout=BUILD_SECONDS)
        shutil.move(fresh, program)
