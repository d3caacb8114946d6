"""Builds and asks the real programs: kstatus, Flux's evaluator of health expressions, Argo CD's Lua interpreter."""

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from e2e.lab import paths
from e2e.lab.binaries.components import GO, go_is_new_enough
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Quiet

SOURCE = Path(__file__).parent / "judges"
BUILD_SECONDS = 1400


def judges() -> Path:
    """Return the program of ``judges/``, built from public Go modules if the cache does not hold it.

    Raises:
        LabError: It cannot be built.
    """
    content = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "apply.go", "go.mod", "go.sum"))
    program = paths.cache_root() / "judges" / hashlib.sha256(content).hexdigest()[:16]
    with locked("judges", Quiet()):
        if not program.is_file():
            _build(program)
    return program


def tell(command: str, question: dict[str, Any]) -> dict[str, Any]:
    """Put one question to the real programs: ``judge`` or ``apply``, see ``judges/``.

    Raises:
        CommandError: It refuses; the message says why.
    """
    answer: dict[str, Any] = json.loads(run(judges(), command, stdin=json.dumps(question), timeout=120).stdout)
    return answer


def have_judges() -> None:
    """Build the program, or skip the test where that cannot be done and is not required."""
    try:
        judges()
    except LabError as error:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise
        pytest.skip(f"no judges: {error}")


def _build(program: Path) -> None:
    if not go_is_new_enough():
        raise LabError(f"cannot build {SOURCE.name} because there is no Go ≥ {GO[0]}.{GO[1]} on PATH")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="go-judges-", dir=program.parent) as work:
        caches = {name: str(Path(work) / name.lower()) for name in ("GOMODCACHE", "GOCACHE", "GOPATH")}
        flags = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false", "GOWORK": "off"}
        fresh = Path(work) / "judges"
        build = ("nice", "-n", "5", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(fresh), ".")
        run(*build, cwd=SOURCE, env={**os.environ, **caches, **flags}, timeout=BUILD_SECONDS)
        shutil.move(fresh, program)
