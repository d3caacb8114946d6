"""The images that a lab's nodes run: the operator's own, and kubelets as artifacts. No registry is involved.

buildah (no daemon) builds them in a storage of its own in the lab's cache, which holds the layers of the last build.
Results are cached under a hash of all their inputs, so that unchanged code is not built again.
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
from e2e.lab.nodes import baseroot, nodeimages
from e2e.lab.process import run
from e2e.lab.progress import Progress, Quiet
from tools import wheels

OPERATOR = "nodeupgrade.test/nodeupgrade"
ARTIFACT = "nodeupgrade.test/kubelet"

_BASE_RECIPE = "2"
_BASE_PACKAGES = ("ca-certificates", "python3", "python3-pip")
_BASE_SUITE, BASE_PYTHON = "bookworm", "3.11"
"""Its Python must be that of the suite."""
_DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt", "dev")
_SOURCES = ("Containerfile", "requirements.lock", "pyproject.toml", "operator")
_KEPT = 3
_BUILD_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image in a file."""

    # an OCI archive, importable into containerd under both names below; as a Docker archive, under the tag
    archive: Path
    tagged: str  # `name:tag`
    pinned: str  # `name@sha256:…`


def operator(progress: Progress | None = None) -> Image:
    """Return the image of the operator and agent, as built from this checkout."""
    return _cached(OPERATOR, _key_of_checkout(), _build_operator, progress or Quiet())


def artifact(kubelet: Path, version: str, progress: Progress | None = None) -> Image:
    """Return an image that contains nothing but `/kubelet`, as a user would publish one."""
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


def hostile(kubelet: Path, version: str, library: Path, progress: Progress | None = None) -> Image:
    """Return an image with a kubelet that asks in every way to have a library of its own loaded.

    Its ``/link`` leads to another process's root directory.
    """
    with kubelet.open("rb") as stream:
        key = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    key += hashlib.sha256(library.read_bytes()).hexdigest()[:8]

    def build(buildah: "Buildah", name: str) -> None:
        root = buildah.scratch / "context" / "root"
        (root / "etc").mkdir(parents=True)
        shutil.copyfile(kubelet, root / "kubelet")
        (root / "kubelet").chmod(0o755)
        shutil.copyfile(library, root / "hostile.so")
        (root / "etc/ld.so.preload").write_text("/hostile.so\n")
        (root / "link").symlink_to("/proc/1/root/kubelet")
        variables = "ENV LD_PRELOAD=/hostile.so LD_AUDIT=/hostile.so PYTHONPATH=/ LD_LIBRARY_PATH=/\n"
        entry = 'USER 0\nENTRYPOINT ["/kubelet"]\n'
        (root.parent / "Containerfile").write_text(f"FROM scratch\nCOPY root/ /\n{variables}{entry}")
        buildah.build(root.parent, name)

    return _cached(ARTIFACT, f"hostile-v{version.removeprefix('v')}-{key}", build, progress or Quiet())


def push_base(destination: str, terminal: Callable[..., str]) -> None:
    """Push the stand-in for the slim Python image to a registry.

    Args:
        destination: its name there, with a tag.
        terminal: runs a command where the registry can be reached.
    """
    cache = paths.cache_root() / "images"
    with locked("images", Quiet()), tempfile.TemporaryDirectory(prefix="nodeupgrade-") as scratch:
        buildah = Buildah(cache / "storage", Path(scratch))
        terminal(*buildah.command("push", "--quiet", _base(buildah), f"docker://{destination}"))


class Buildah:
    """buildah with a storage of its own.

    Attributes:
        scratch: directory for the caller's files, removed with this object.
    """

    def __init__(self, cache: Path, scratch: Path) -> None:
        self.scratch = scratch
        self._storage: tuple[str, ...] = ()
        # overlay is ten times as fast, but does not work where the cache itself is on an overlay.
        for driver in ("overlay", "vfs"):
            self._storage = (f"--storage-driver={driver}", f"--root={cache}/{driver}", f"--runroot={scratch}/run")
            if run("buildah", *self._storage, "images", check=False, timeout=_BUILD_SECONDS).returncode == 0:
                break

    def __call__(self, *arguments: str | Path) -> str:
        """Run one buildah command and return its output."""
        return run(*self.command(*arguments), timeout=_BUILD_SECONDS).stdout.strip()

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the command line of one buildah command, for callers that run it elsewhere."""
        return ["buildah", *self._storage, *map(str, arguments)]

    def build(self, context: Path, name: str, *options: str) -> None:
        """Build the Containerfile of `context`; the same content gives the same digest."""
        fixed = ("--isolation=chroot", "--timestamp=0", "--layers", "--pull-never", "--quiet")
        self("build", *fixed, *options, f"--tag={name}", f"--file={context}/Containerfile", context)

    def has(self, name: str) -> bool:
        """Report whether the storage has an image of that name."""
        return bool(self("images", "--quiet", f"--filter=reference={name}"))

    def write_layout(self, name: str, layout: Path) -> str:
        """Write an image as an uncompressed OCI layout without an index and return its manifest's digest."""
        pushed = self.scratch / "pushed"
        self("push", "--quiet", "--disable-compression", "--format=oci", name, f"dir:{pushed}")
        manifest = (pushed / "manifest.json").read_bytes()
        digest = hashlib.sha256(manifest).hexdigest()
        blobs = layout / "blobs/sha256"
        blobs.mkdir(parents=True)
        (blobs / digest).write_bytes(manifest)
        for blob in json.loads(manifest)["layers"] + [json.loads(manifest)["config"]]:
            hexadecimal = blob["digest"].removeprefix("sha256:")
            (pushed / hexadecimal).rename(blobs / hexadecimal)
        return f"sha256:{digest}"


def _build_operator(buildah: Buildah, name: str) -> None:
    context = buildah.scratch / "context"
    shutil.copytree(dependencies(), context / "wheels" / wheels.DEPENDENCIES)
    wheels.our_own(context / "wheels")
    for file in ("Containerfile", "requirements.lock"):
        shutil.copyfile(wheels.CHECKOUT / file, context / file)
    buildah.build(context, name, f"--build-arg=BASE={_base(buildah)}")


def _base(buildah: Buildah) -> str:
    """Return the name of the base image in the storage."""
    base = f"{OPERATOR}-base:{_BASE_RECIPE}"
    if not buildah.has(base):
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, _base_root(), "/")
        buildah("commit", "--quiet", "--rm", "--timestamp=0", container, base)
    return base


def _base_root() -> Path:
    """Return a plain Debian with Python, in place of the slim Python image that no lab can pull."""
    target = paths.cache_root() / "roots" / f"python-r{_BASE_RECIPE}"
    if not target.is_dir():
        with _appearing(target) as fresh:
            include = f"--include={','.join(_BASE_PACKAGES)}"
            run(
                "debootstrap",
                "--variant=minbase",
                include,
                _BASE_SUITE,
                fresh,
                *baseroot.mirror(),
                timeout=_BUILD_SECONDS,
            )
            for name in _DROPPED:
                shutil.rmtree(fresh / name)
            (fresh / "dev").mkdir()  # without the device files that only root outside a container may create
    return target


def dependencies() -> Path:
    """Return a directory with the locked wheels for the base's Python, downloading them once."""
    key = hashlib.sha256(wheels.LOCK.read_bytes()).hexdigest()[:16]
    target = paths.cache_root() / "wheels" / f"{BASE_PYTHON}-{key}"
    if not target.is_dir():
        with _appearing(target) as fresh:
            wheels.dependencies(fresh, python=BASE_PYTHON, machine=platform.machine())
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
    """Return the image from the cache, building it first if necessary."""
    cache = paths.cache_root() / "images"
    target = cache / name.rpartition("/")[2] / key
    tagged = f"{name}:{key}"
    with locked("images", progress):
        if not target.is_dir():
            progress.say(f"building the image {tagged}")
            began = time.monotonic()
            with _appearing(target) as fresh, tempfile.TemporaryDirectory(prefix="nodeupgrade-") as scratch:
                buildah = Buildah(cache / "storage", Path(scratch))
                build(buildah, tagged)
                (fresh / "pinned").write_text(_write_archive(buildah, name, key, fresh / "image.tar"))
                _forget_old_builds(buildah, keep=tagged)
            _forget_old_archives(target.parent)
            progress.say(f"built the image {tagged} in {time.monotonic() - began:.0f} s")
        os.utime(target)
    return Image(archive=target / "image.tar", tagged=tagged, pinned=(target / "pinned").read_text())


def _write_archive(buildah: Buildah, name: str, tag: str, archive: Path) -> str:
    """Write an OCI archive of an image under its two names, as containerd reads them; return the pinned one.

    It is a Docker archive, too.

    A reference by digest resolves in a node without a registry only if an image of exactly that name was imported.
    """
    layout = buildah.scratch / "layout"
    digest = buildah.write_layout(f"{name}:{tag}", layout)
    pinned = f"{name}@{digest}"
    manifest = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": digest,
        "size": (layout / "blobs/sha256" / digest.removeprefix("sha256:")).stat().st_size,
    }
    names = [{**manifest, "annotations": {"io.containerd.image.name": full}} for full in (f"{name}:{tag}", pinned)]
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": names}))
    content = json.loads((layout / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes())
    (layout / "manifest.json").write_bytes(nodeimages.docker_manifest(content, f"{name}:{tag}"))
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    run("tar", "--create", f"--file={archive}", f"--directory={layout}", ".", timeout=300)
    return pinned


def _forget_old_builds(buildah: Buildah, *, keep: str) -> None:
    """Remove earlier builds from the storage; layers shared with the newest one stay."""
    names = buildah("images", "--format={{.Name}}:{{.Tag}}", f"--filter=reference={keep.rpartition(':')[0]}").split()
    for name in names:
        if name != keep and not name.startswith("<none>"):
            buildah("rmi", "--force", name)


def _forget_old_archives(directory: Path) -> None:
    """Keep only the images used last: each has some hundred megabytes."""
    images = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in images[_KEPT:]:
        shutil.rmtree(old)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Provide a directory that becomes `target` on success, and is removed otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent, ignore_cleanup_errors=True) as directory:
        fresh = Path(directory) / "content"
        fresh.mkdir()
        yield fresh
        fresh.rename(target)
