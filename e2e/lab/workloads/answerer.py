"""An image whose program answers HTTP and the gRPC health protocol, for workloads with probes of every kind.

The program is ``answer.go``, built with the standard library only; the image also contains the lab's busybox.
"""

import hashlib
import os
import platform
import tempfile
from pathlib import Path

from e2e.lab import paths
from e2e.lab.locking import locked
from e2e.lab.nodes import baseroot, nodeimages
from e2e.lab.process import run
from e2e.lab.progress import Progress, Quiet

IMAGE = "nodeupgrade.test/answer:1"
PROGRAM = "/bin/answer"

_SOURCE = Path(__file__).with_name("answer.go")
_MODULE = "module answer\n\ngo 1.24\n"
_RECIPE = "1"
_BUILD_SECONDS = 900


def archive(progress: Progress | None = None) -> Path:
    """Return the image's OCI archive, building it first if necessary.

    Raises:
        LabError: Go is missing or fails.
    """
    progress = progress or Quiet()
    made_of = "\0".join((_RECIPE, platform.machine(), _MODULE, _SOURCE.read_text()))
    directory = paths.cache_root() / "images/answer"
    target = directory / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.tar"
    with locked("answer", progress):
        if not target.is_file():
            progress.say(f"building the image {IMAGE}")
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=directory) as scratch:
                fresh = Path(scratch) / "image.tar"
                _write(fresh, _build(Path(scratch)), baseroot.ensure(progress))
                for old in directory.glob("*.tar"):
                    old.unlink()
                fresh.rename(target)
    return target


def _build(scratch: Path) -> bytes:
    """Build the program, statically, with a temporary Go cache."""
    module = scratch / "module"
    module.mkdir()
    (module / "go.mod").write_text(_MODULE)
    (module / _SOURCE.name).write_text(_SOURCE.read_text())
    caches = {"GOCACHE": str(scratch / "objects"), "GOPATH": str(scratch / "path")}
    environment = {**os.environ, **caches, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=mod -buildvcs=false"}
    argv = ("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "answer", ".")
    run(*argv, cwd=module, env=environment, timeout=_BUILD_SECONDS)
    return (module / "answer").read_bytes()


def _write(file: Path, program: bytes, root: Path) -> None:
    layer = nodeimages.busybox_layer(root, {PROGRAM.lstrip("/"): program})
    nodeimages.write_archive(file, IMAGE, layer, [PROGRAM])
