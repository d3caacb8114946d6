"""The images that a lab's nodes run: the operator's own, and kubelets as artifacts. No registry is asked.

Built by buildah (no daemon, no privileges beyond root) in a storage of its own that is gone afterwards. Results
are kept in the lab's cache under a hash of everything they are made of, so unchanged code is not built again.
"""

import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import paths
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Progress, Quiet
from tools import wheels

OPERATOR = "nodeupgrade.test/nodeupgrade"
ARTIFACT = "nodeupgrade.test/kubelet"

_BASE_RECIPE = "1"
_BASE_PACKAGES = ("ca-certificates", "python3", "python3-venv")
_BASE_SUITE, _BASE_PYTHON = "bookworm", "3.11"
_DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt", "dev")
_SOURCES = ("Containerfile", "requirements.lock", "pyproject.toml", "operator")
_KEPT = 3
_BUILD_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image in a file.

    Attributes:
        archive: an OCI archive, importable into containerd under both names below.
        tagged: `name:tag`.
        pinned: `name@sha256:…`.
    """

    archive: Path
    tagged: str
    pinned: str


def operator(progress: Progress | None = None) -> Image:
    """Return the image of the operator and agent, as built from this checkout."""
    return _cached(OPERATOR, _key_of_checkout(), _build_operator, progress or Quiet())


def artifact(kubelet: Path, version: str, progress: Progress | None = None) -> Image:
    """Return an image that holds nothing but `/kubelet`, the way a user would publish one."""
    with kubelet.open("rb") as stream:
        key = hashlib.file_digest(stream, "sha256").hexdigest()[:16]

    def build(buildah: "Buildah", name: str) -> None:
        context = buildah.scratch / "context"
        context.mkdir()
        shutil.copyfile(kubelet, context / "kubelet")
        (context / "kubelet").chmod(0o755)
        (context / "Containerfile").write_text("FROM scratch\nCOPY kubelet /kubelet\n")
        buildah.build(context, name)

    return _cached(ARTIFACT, f"v{version.removeprefix('v')}-{key}", build, progress or Quiet())


class Buildah:
    """buildah with a storage of its own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def __call__(self, *arguments: str | Path) -> str:
        """Run one buildah command and return its output."""
        storage = ("--storage-driver=vfs", f"--root={self.scratch}/storage", f"--runroot={self.scratch}/run")
        return run("buildah", *storage, *arguments, timeout=_BUILD_SECONDS).stdout.strip()

    def build(self, context: Path, name: str, *options: str) -> None:
        """Build the Containerfile of `context`; the same content gives the same digest."""
        fixed = ("--isolation=chroot", "--timestamp=0", "--pull-never", "--quiet")
        self("build", *fixed, *options, f"--tag={name}", f"--file={context}/Containerfile", context)


def _build_operator(buildah: Buildah, name: str) -> None:
    context = buildah.scratch / "context"
    shutil.copytree(_dependencies(), context / "wheels")
    wheels.our_own(context / "wheels")
    for file in ("Containerfile", "requirements.lock"):
        shutil.copyfile(wheels.CHECKOUT / file, context / file)
    base = f"{OPERATOR}-base:{_BASE_RECIPE}"
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, _base_root(), "/")
    buildah("commit", "--quiet", "--rm", "--timestamp=0", container, base)
    buildah.build(context, name, f"--build-arg=BASE={base}")


def _base_root() -> Path:
    """Return a plain Debian with Python, standing in for the slim Python image that no lab can pull."""
    target = paths.cache_root() / "roots" / f"python-r{_BASE_RECIPE}"
    if not target.is_dir():
        with _appearing(target) as fresh:
            mirror = os.environ.get("NODEUPGRADE_LAB_MIRROR", "")
            include = f"--include={','.join(_BASE_PACKAGES)}"
            run("debootstrap", "--variant=minbase", include, _BASE_SUITE, fresh, mirror, timeout=_BUILD_SECONDS)
            for name in _DROPPED:
                shutil.rmtree(fresh / name)
            (fresh / "dev").mkdir()  # without the device files that only root outside a container may make
    return target


def _dependencies() -> Path:
    """Return a directory with the locked wheels for the base's Python, downloading them once."""
    key = hashlib.sha256(wheels.LOCK.read_bytes()).hexdigest()[:16]
    target = paths.cache_root() / "wheels" / f"{_BASE_PYTHON}-{key}"
    if not target.is_dir():
        with _appearing(target) as fresh:
            wheels.dependencies(fresh, python=_BASE_PYTHON, machine=platform.machine())
    return target


def _key_of_checkout() -> str:
    total = hashlib.sha256(f"{_BASE_RECIPE} {platform.machine()}\n".encode())
    for file in sorted(_source_files()):
        total.update(f"{file.relative_to(wheels.CHECKOUT)}\n".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def _source_files() -> Iterator[Path]:
    for name in _SOURCES:
        path = wheels.CHECKOUT / name
        found = path.rglob("*") if path.is_dir() else iter((path,))
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _cached(name: str, key: str, build: Callable[[Buildah, str], None], progress: Progress) -> Image:
    """Return the image from the cache, building it first if it is not there."""
    directory = paths.cache_root() / "images" / name.rpartition("/")[2]
    target = directory / key
    with locked(f"image-{directory.name}", progress):
        if not target.is_dir():
            progress.say(f"building the image {name}:{key}")
            began = time.monotonic()
            with _appearing(target) as fresh, _scratch(directory) as scratch:
                buildah = Buildah(scratch)
                build(buildah, f"{name}:{key}")
                layout = scratch / "layout"
                buildah("push", "--quiet", "--disable-compression", f"{name}:{key}", f"oci:{layout}:{key}")
                pinned = _name_in_index(layout, name, key)
                run("tar", "--create", f"--file={fresh / 'image.tar'}", f"--directory={layout}", ".", timeout=300)
                (fresh / "pinned").write_text(pinned)
            _forget_old(directory)
            progress.say(f"built the image {name}:{key} in {time.monotonic() - began:.0f} s")
        os.utime(target)
    return Image(archive=target / "image.tar", tagged=f"{name}:{key}", pinned=(target / "pinned").read_text())


def _name_in_index(layout: Path, name: str, tag: str) -> str:
    """Give the only image of an OCI layout its two names, as containerd reads them; return the pinned one.

    A reference by digest resolves in a node without a registry only if an image of exactly that name was imported.
    """
    index = json.loads((layout / "index.json").read_text())
    (descriptor,) = index["manifests"]
    pinned = f"{name}@{descriptor['digest']}"
    index["manifests"] = [
        {**descriptor, "annotations": {"io.containerd.image.name": full}} for full in (f"{name}:{tag}", pinned)
    ]
    (layout / "index.json").write_text(json.dumps(index))
    return pinned


def _forget_old(directory: Path) -> None:
    """Keep the few images used last: each is some hundred megabytes."""
    images = sorted((path for path in directory.iterdir()), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in images[_KEPT:]:
        shutil.rmtree(old)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Offer a directory for buildah and remove it with everything that buildah made."""
    with tempfile.TemporaryDirectory(prefix=".buildah-", dir=parent, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Offer a directory that becomes `target` when all went well, and is removed otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent, ignore_cleanup_errors=True) as directory:
        fresh = Path(directory) / "content"
        fresh.mkdir()
        yield fresh
        fresh.rename(target)
