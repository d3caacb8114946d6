"""Build the program that reads texts as Kubernetes does, from the Go modules that go.mod names."""

import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from e2e.lab.binaries.gobuild import environment
from e2e.lab.locking import locked
from e2e.lab.paths import cache_root
from e2e.lab.process import run
from e2e.lab.progress import Progress

SOURCES = Path(__file__).parent / "go"


def program(progress: Progress) -> Path:
    """Return the program, building it if it is not cached.

    Raises:
        LabError: Go fails; the message ends with what it printed.
    """
    recipe = sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()[:12]
    built = cache_root() / "oracle" / f"readers-{recipe}"
    with locked("oracle-readers", progress):
        if not built.exists():
            built.parent.mkdir(parents=True, exist_ok=True)
            _build(built, progress)
    return built


def _build(built: Path, progress: Progress) -> None:
    work = Path(tempfile.mkdtemp(prefix="readers-", dir=built.parent))
    try:
        progress.say("building the readers of Kubernetes (a minute)")
        module = Path(shutil.copytree(SOURCES, work / "module"))
        run(
            "go",
            "build",
            "-trimpath",
            "-o",
            str(work / "readers"),
            ".",
            cwd=module,
            env=environment(work),
            timeout=1200,
        )
        (work / "readers").rename(built)
    finally:
        shutil.rmtree(work, ignore_errors=True)
