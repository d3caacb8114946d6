"""Assembles the root directory of the image: Python, the installed packages and the few programs that pods start.

python -m nodeupgrade.node.bundle.image_root /opt/nodeupgrade /image

There is no shell in it, no package manager, and no half of a package that nothing imports. What changes with every
version of nodeupgrade is in ``own``, everything else in ``base``: two layers, of which nodes have the larger already.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nodeupgrade import bundle
from nodeupgrade.node.bundle import build

APPLICATION = bundle.DEFAULT_LOCATION.parent.relative_to("/")
BASE, OWN = "base", "own"

PROGRAMS = ("chroot", "cp", "sleep")
"""What pods start, besides Python: the host's programs, the copying of a bundle, a container that only waits."""

UNUSED = (
    *("kubernetes/client/api", "kubernetes/client/models"),
    *("kubernetes/aio/client/api", "kubernetes/aio/client/models"),
)
"""Packages of the Kubernetes client of which only ``__init__`` stays. Their modules, one for each API and kind, are
imported on first use of a class; we use none, since we read and write plain JSON."""

_CHANGING = ("bundle", "venv/bin/*nodeupgrade", "venv/lib/python*/site-packages/nodeupgrade*")
_NEEDED_HERE = frozenset({"wsgiref"})
"""Entries of the standard library that bundles lack and that prometheus_client imports."""

_CERTIFICATES = (
    "/usr/lib/ssl/cert.pem",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/share/ca-certificates",
)
_FILES_IF_THERE = ("/etc/ld.so.cache", "/etc/nsswitch.conf")
_WRITTEN = {
    "etc/passwd": "root:x:0:0:root:/:/\n",
    "etc/group": "root:x:0:\n",
    str(bundle.EMPTY_FILE.relative_to("/")): "",
}
_ASKED_FOR = re.compile(rb"/lib\w*/ld-[\w.-]+\.so[.\d]*(?=\0)")


def assemble(application: Path, destination: Path) -> None:
    """Write both parts of the root directory.

    Args:
        application: directory with the virtual environment of this Python and, if there is one, a bundle.
        destination: directory for ``base`` and ``own``; must not exist.

    Raises:
        BundleError: this Python cannot be bundled; the message says why.
        OSError: certificates or another file that is needed are missing.
    """
    base, own = destination / BASE, destination / OWN
    interpreter = Path(sys.executable).resolve()
    library = build.standard_library()
    shutil.copytree(application, base / APPLICATION, symlinks=True, ignore=ignore_unused)
    _copy(library, base, ignore=_ignore_in_standard_library)
    build.compile_all(base / library.relative_to("/"))
    programs = [interpreter, *map(_program, PROGRAMS)]
    files = [*map(Path, _CERTIFICATES), *(path for path in map(Path, _FILES_IF_THERE) if path.exists())]
    for path in (*files, *programs, *_links_to(interpreter, application), *_libraries(programs, base)):
        _copy(path, base)
    for name, text in _WRITTEN.items():
        (base / name).write_text(text, encoding="utf-8")
    (base / "tmp").mkdir()
    (base / "tmp").chmod(0o1777)
    for found in [path for pattern in _CHANGING for path in (base / APPLICATION).glob(pattern)]:
        target = own / found.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        found.rename(target)


def ignore_unused(directory: str, names: list[str]) -> set[str]:
    """Return the names of a directory to leave out: modules that are ``UNUSED``."""
    package = directory.removesuffix("/__pycache__")
    if not package.endswith(tuple(f"/site-packages/{each}" for each in UNUSED)):
        return set()
    return {name for name in names if not name.startswith("__init__.") and name != "__pycache__"}


def _ignore_in_standard_library(directory: str, names: list[str]) -> set[str]:
    return build.ignored_in_standard_library(directory, names) - _NEEDED_HERE


def _program(name: str) -> Path:
    if (found := shutil.which(name)) is None:
        raise bundle.BundleError(f"cannot assemble the image because there is no program {name}")
    return Path(found)


def _links_to(interpreter: Path, application: Path) -> Iterator[Path]:
    """Yield the links that the environment's Python leads through outside of it."""
    link = application / "venv/bin/python"
    while link.is_symlink():
        link = link.parent / link.readlink()
        if link.is_symlink() and not link.is_relative_to(application):
            yield link
    if link.resolve() != interpreter:
        why = f"{application} has another Python than {interpreter}"
        raise bundle.BundleError(f"cannot assemble the image because {why}")


def _libraries(programs: Iterable[Path], base: Path) -> Iterator[Path]:
    """Yield the loader that programs ask for, and every library that it would load for them and for extensions."""
    loader = build.running_loader()
    for binary in (*programs, *build.extensions(base)):
        yield from (Path(path) for _, path in build.list_libraries(loader, binary) if Path(path).is_absolute())
    asked = {found for program in programs for found in _ASKED_FOR.findall(program.read_bytes()[:8192])}
    yield from (Path(found.decode()) for found in asked)


def _copy(path: Path, root: Path, ignore: build.Ignore | None = None) -> None:
    """Copy a file or directory to the same place below another root, with every link on the way to it."""
    reached, ahead = Path("/"), list(path.parts[1:])
    while ahead:
        here = reached / ahead.pop(0)
        target = root / here.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if here.is_symlink():
            if not target.is_symlink():
                target.symlink_to(here.readlink())
            ahead = [*Path(os.path.normpath(reached / here.readlink())).parts[1:], *ahead]
            reached = Path("/")
        elif ahead:
            reached = here
        elif here.is_dir():
            shutil.copytree(here, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copy2(here, target)


def main(argv: Sequence[str]) -> int:
    """Assemble the root directory of the image from the two directories named on the command line."""
    if len(argv) != 2:
        print("usage: python -m nodeupgrade.node.bundle.image_root APPLICATION DESTINATION", file=sys.stderr)
        return 2
    assemble(Path(argv[0]), Path(argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
