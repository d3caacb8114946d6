"""Finds programs of other projects that tests run: on PATH, else in the cache, else fetched or built."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from e2e.lab import paths
from e2e.lab.components import GO, go_is_new_enough
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Quiet

HELM = "v3.19.5"
_BUILD_SECONDS = 1400


def helm() -> str:
    """Return Helm's program.

    Raises:
        LabError: there is none, and it cannot be built.
    """
    return shutil.which("helm") or str(_cached(f"helm-{HELM}", _build_helm))


def prometheus(name: str = "prometheus") -> str:
    """Return Prometheus' program, or the one of its package with another name; its package is not installed.

    Raises:
        LabError: there is none, and it cannot be fetched.
    """
    return shutil.which(name) or str(_cached("prometheus", _fetch_prometheus) / "usr/bin" / name)


def _cached(name: str, obtain: Callable[[Path], None]) -> Path:
    target = paths.cache_root() / "programs" / name
    with locked(f"program-{name}", Quiet()):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as work:
                obtain(Path(work) / "fresh")
                shutil.move(Path(work) / "fresh", target)
    return target


def _build_helm(target: Path) -> None:
    if not go_is_new_enough():
        raise LabError(f"cannot build Helm because there is no Go ≥ {GO[0]}.{GO[1]} on PATH; install helm")
    work = target.with_name("work")
    caches = {name: str(work / name.lower()) for name in ("GOMODCACHE", "GOCACHE", "GOPATH")}
    flags = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false", "GOWORK": "off"}
    environment = {**os.environ, **caches, **flags}
    module = work / "module"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module helm\n")
    package = "helm.sh/helm/v3/cmd/helm"
    run("go", "get", f"{package}@{HELM}", cwd=module, env=environment, timeout=_BUILD_SECONDS)
    build = ("nice", "-n", "19", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), package)
    run(*build, cwd=module, env=environment, timeout=_BUILD_SECONDS)


def _fetch_prometheus(target: Path) -> None:
    work = target.with_name("work")
    work.mkdir()
    if shutil.which("apt-get") is None:
        raise LabError("cannot fetch the package prometheus because there is no apt-get; install prometheus")
    run("apt-get", "download", "-o", "APT::Sandbox::User=root", "prometheus", cwd=work, timeout=300)
    (package,) = work.glob("prometheus_*.deb")
    run("dpkg-deb", "--extract", str(package), str(target), timeout=120)
