"""Finds programs of other projects that tests run: on PATH, else in the cache, else fetched or built."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from e2e.lab import paths
from e2e.lab.binaries.components import GO, go_is_new_enough
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Quiet

HELM = "v3.19.5"
ETCD = "v3.5.24"
"""The one that kubeadm 1.33 asks for; its probes need 3.5.11 or later, which Debian 12 does not have."""
CONTAINERD = "github.com/containerd/containerd/v2"
_BUILD_SECONDS = 1400
_PODMAN = ("podman", "conmon", "runc")
"""The packages that podman runs with; it asks for a monitor and a runtime even where it builds without them."""


def helm() -> str:
    """Return Helm's program.

    Raises:
        LabError: there is none, and it cannot be built.
    """
    return shutil.which("helm") or str(_cached(f"helm-{HELM}", _built("helm.sh/helm/v3/cmd/helm", version=HELM)))


def etcd() -> Path:
    """Return a static etcd for images, of the version ``ETCD``.

    Raises:
        LabError: it cannot be built.
    """
    return _cached(f"etcd-{ETCD}", _built("go.etcd.io/etcd/server/v3", version=ETCD))


def containerd(version: str) -> Path:
    """Return a directory with ``containerd``, its shim and ``ctr``, of a version that no Debian package here has.

    Raises:
        LabError: they cannot be built.
    """
    tags = "osusergo,netgo,static_build,no_btrfs,no_zfs,no_devmapper"
    build = _built(
        *(f"{CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
        version=f"v{version}",
        flags=("-tags", tags, "-ldflags", f"-s -w -X {CONTAINERD}/version.Version={version}"),
    )
    return _cached(f"containerd-{version}", build)


def etcdctl() -> Path:
    """Return etcd's command line; Debian's package is not installed.

    Raises:
        LabError: there is none, and it cannot be fetched.
    """
    found = shutil.which("etcdctl")
    return Path(found) if found else packaged("etcd-client") / "usr/bin/etcdctl"


def prometheus(name: str = "prometheus") -> str:
    """Return Prometheus' program, or the one of its package with another name; its package is not installed.

    Raises:
        LabError: there is none, and it cannot be fetched.
    """
    return shutil.which(name) or str(packaged("prometheus") / "usr/bin" / name)


def registry() -> str:
    """Return the program of an image registry (distribution); its package is not installed.

    Raises:
        LabError: there is none, and it cannot be fetched.
    """
    return shutil.which("docker-registry") or str(packaged("docker-registry") / "usr/bin/docker-registry")


def skopeo() -> str:
    """Return skopeo, which copies images; its package is not installed, and buildah's brings the libraries.

    Raises:
        LabError: there is none, and it cannot be fetched.
    """
    return shutil.which("skopeo") or str(packaged("skopeo") / "usr/bin/skopeo")


def podman() -> Path:
    """Return a directory, laid out as `/`, with podman and what it runs with; no package is installed.

    Raises:
        LabError: it cannot be fetched.
    """
    return Path("/") if Path("/usr/bin/podman").exists() else packaged(*_PODMAN)


def module_file(module: str, path: str) -> Path:
    """Return a file of a public Go module, such as `example.com/module@v1.2.3`; it is not copied into the checkout.

    Raises:
        LabError: there is no Go, or no such file.
    """

    def fetch(target: Path) -> None:
        work = target.with_name("work")
        work.mkdir()
        (work / "go.mod").write_text("module fetch\n")
        if not go_is_new_enough():
            raise LabError(f"cannot fetch {module} because there is no Go ≥ {GO[0]}.{GO[1]} on PATH; install it")
        caches = {"GOMODCACHE": str(work / "cache"), "GOFLAGS": "-mod=mod -modcacherw", "GOWORK": "off"}
        told = run("go", "mod", "download", "-json", module, cwd=work, env={**os.environ, **caches}, timeout=600)
        found = Path(json.loads(told.stdout)["Dir"]) / path
        if not found.is_file():
            raise LabError(f"{module} has no file {path}")
        shutil.copyfile(found, target)

    return _cached(f"{module.replace('/', '_')}-{path.rpartition('/')[2]}", fetch)


def packaged(*names: str) -> Path:
    """Return a directory with the files of Debian packages, the first of which gives it its name.

    Raises:
        LabError: they cannot be fetched.
    """

    def fetch(target: Path) -> None:
        work = target.with_name("work")
        work.mkdir()
        if shutil.which("apt-get") is None:
            raise LabError(f"cannot fetch the package {names[0]} because there is no apt-get; install {names[0]}")
        run("apt-get", "download", "-o", "APT::Sandbox::User=root", *names, cwd=work, timeout=300)
        for package in work.glob("*.deb"):
            run("dpkg-deb", "--extract", str(package), str(target), timeout=120)

    return _cached(names[0], fetch)


def _cached(name: str, obtain: Callable[[Path], None]) -> Path:
    target = paths.cache_root() / "programs" / name
    with locked(f"program-{name}", Quiet()):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as work:
                obtain(Path(work) / "fresh")
                shutil.move(Path(work) / "fresh", target)
    return target


def _built(*packages: str, version: str, flags: Sequence[str] = ("-ldflags", "-s -w")) -> Callable[[Path], None]:
    """Return what builds static programs from a public Go module: several of them into a directory."""

    def build(target: Path) -> None:
        if not go_is_new_enough():
            raise LabError(f"cannot build {packages[0]} because there is no Go ≥ {GO[0]}.{GO[1]} on PATH; install it")
        work = target.with_name("work")
        caches = {name: str(work / name.lower()) for name in ("GOMODCACHE", "GOCACHE", "GOPATH")}
        settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false", "GOWORK": "off"}
        environment = {**os.environ, **caches, **settings}
        module = work / "module"
        module.mkdir(parents=True)
        (module / "go.mod").write_text("module program\n")
        wanted = [f"{package}@{version}" for package in packages]
        run("go", "get", *wanted, cwd=module, env=environment, timeout=_BUILD_SECONDS)
        if len(packages) > 1:
            target.mkdir()
        command = ("nice", "-n", "19", "go", "build", "-trimpath", *flags, "-o", str(target), *packages)
        run(*command, cwd=module, env=environment, timeout=_BUILD_SECONDS)

    return build
