"""Builds a bundle from the Python that runs this. `nodeupgrade.bundle` defines bundles.

python -m nodeupgrade.node.bundle.build /opt/nodeupgrade/bundle
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePath

import nodeupgrade
from nodeupgrade import bundle
from nodeupgrade.api.printable import printable
from nodeupgrade.node.bundle.store import write_manifest
from nodeupgrade.text import lines, words

ROOTS = ("grpcio", "protobuf", "pyyaml", "structlog", "tenacity")
"""What the programs on the host import; dependencies are added. The Kubernetes client is not needed, and large."""

_NOT_NEEDED = frozenset(
    {"__phello__", "LICENSE.txt", "curses", "dist-packages", "distutils", "ensurepip", "idlelib", "lib2to3"}
    | {"msilib", "pydoc_data", "site-packages", "sitecustomize.py", "sqlite3", "tkinter", "turtle.py"}
    | {"turtledemo", "unittest", "venv", "wsgiref", "xmlrpc"}
)
"""Entries of the standard library for users, tests and databases, which the programs on the host never import."""

_NOT_NEEDED_EXTENSION = re.compile(
    r"(_codecs_(cn|hk|jp|kr|tw)|_curses.*|_ctypes_test|_dbm|_gdbm|_sqlite3|_test.*|_tkinter|_xx.*"
    r"|nis|ossaudiodev|readline|xx.*)\."
)
_FOR_COMPILERS = frozenset({".pyi", ".pyx", ".pxd", ".h"})
_LISTED = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/\S+|not found)", re.ASCII | re.MULTILINE)
_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<rest>.*)$")
_TIMEOUT_SECONDS = 300

Ignore = Callable[[str, list[str]], set[str]]
"""Returns the names of a directory to leave out."""


def build(destination: Path) -> bundle.Manifest:
    """Build a bundle at `destination`, which must be empty or not exist, and return its manifest.

    Raises:
        BundleError: this Python cannot be bundled; the message says why.
    """
    if destination.exists() and any(destination.iterdir()):
        raise bundle.BundleError(f"cannot build a bundle in {destination} because it is not empty")
    loader = running_loader()
    interpreter = Path(sys.executable).resolve()
    library = destination / bundle.LIBRARIES / f"python{sys.version_info.major}.{sys.version_info.minor}"

    shutil.copytree(standard_library(), library, ignore=ignored_in_standard_library)
    for found in _closure(ROOTS):
        _copy_distribution(found, library)
    package = Path(nodeupgrade.__file__).parent
    shutil.copytree(package, library / package.name, ignore=_ignore_in_our_package)
    compile_all(library, keep_sources=False)

    executables = {bundle.LOADER: loader, bundle.INTERPRETER: interpreter}
    binaries = [interpreter, *extensions(library)]
    libraries = {bundle.LIBRARIES / name: path for name, path in _shared_libraries(loader, binaries).items()}
    for name, path in {**executables, **libraries}.items():
        _copy(path, destination / name)
    for path in [destination, *destination.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.relative_to(destination) in executables else 0o644)
    python, machine = platform.python_version(), platform.machine()
    return write_manifest(destination, version=nodeupgrade.__version__, python=python, machine=machine)


def running_loader() -> Path:
    """Return the glibc loader that started this process.

    Raises:
        BundleError: there is none, as with musl or a static interpreter.
    """
    for line in lines(os.fsdecode(Path("/proc/self/maps").read_bytes())):
        path = Path(words(line)[-1])
        if re.fullmatch(r"ld(-linux.*|64|-[0-9.]+)\.so(\.[0-9]+)?", path.name):
            return path.resolve()
    raise bundle.BundleError("cannot bundle this Python because it does not run on glibc; use a Debian image")


def standard_library() -> Path:
    """Return the directory of the standard library.

    Raises:
        BundleError: it is not laid out as on Debian.
    """
    found = Path(sysconfig.get_path("stdlib"))
    if sys.platlibdir != "lib" or not (found / "lib-dynload").is_dir():
        raise bundle.BundleError(f"cannot bundle this Python because {found} has no lib-dynload; use a Debian image")
    return found


def ignored_in_standard_library(directory: str, names: list[str]) -> set[str]:
    """Return the names to leave out: unneeded packages at the top, unneeded extensions, and build leftovers."""
    at_top = Path(directory) == standard_library()
    return {
        name
        for name in names
        if name in {"__pycache__", "test", "tests"}
        or (at_top and (name in _NOT_NEEDED or name.startswith("config-")))
        or (directory.endswith("lib-dynload") and _NOT_NEEDED_EXTENSION.match(name))
        or name.endswith((".a", ".exe"))
    }


def _ignore_in_our_package(directory: str, names: list[str]) -> set[str]:
    """Return the names to leave out: what no program on the host needs."""
    at_top = Path(directory) == Path(nodeupgrade.__file__).parent
    return {name for name in names if name == "__pycache__" or (at_top and name in bundle.EXCLUDED_PACKAGES)}


def _closure(roots: Iterable[str]) -> list[Distribution]:
    """Return these distributions and all that they require on this Python, sorted by name."""
    found: dict[str, Distribution] = {}
    pending = list(roots)
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            raise bundle.BundleError(f"cannot bundle {name} because it is not installed") from error
        pending.extend(_required_by(found[name]))
    return [found[name] for name in sorted(found)]


def _required_by(dist: Distribution) -> Iterator[str]:
    for requirement in dist.requires or ():
        match = _REQUIREMENT.match(requirement)
        if match is None:
            raise bundle.BundleError(f"cannot bundle {dist.name} because its requirement {requirement!r} is unreadable")
        marker = match["rest"].partition(";")[2]
        if "extra" in marker:
            continue
        # Markers (such as an older Python) were evaluated at installation: what they exclude is not installed here.
        if not marker or _is_installed(match["name"]):
            yield match["name"]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _copy_distribution(dist: Distribution, library: Path) -> None:
    """Copy the modules and the licence of one installed distribution."""
    if not dist.files:
        raise bundle.BundleError(f"cannot bundle {dist.name} because it has no list of its files")
    for entry in dist.files:
        if ".." in entry.parts or "__pycache__" in entry.parts or entry.suffix in _FOR_COMPILERS:
            continue
        is_licence = "licenses" in entry.parts or entry.name == "METADATA" or entry.name.startswith("LICEN")
        if entry.parts[0].endswith(".dist-info") and not is_licence:
            continue
        _copy(Path(str(entry.locate())), library / entry)


def extensions(library: Path) -> list[Path]:
    """Return the shared objects in a directory."""
    return sorted(path for path in library.rglob("*.so") if path.read_bytes()[:4] == b"\x7fELF")


def _shared_libraries(loader: Path, binaries: Iterable[Path]) -> dict[str, Path]:
    """Return the file, by name, of every library that the loader would load for `binaries`."""
    found: dict[str, Path] = {}
    for binary in binaries:
        for needed, path in list_libraries(loader, binary):
            name = PurePath(needed).name
            if path == "not found":
                raise bundle.BundleError(f"cannot bundle {binary} because its library {name} is missing")
            if Path(path).resolve() != loader:
                found[name] = Path(path).resolve()
    if "libc.so.6" not in found:
        raise bundle.BundleError("cannot bundle this Python because it does not use a shared glibc")
    # Nothing links to it: glibc opens it by name when a thread is cancelled or exits.
    unwinder = found["libc.so.6"].with_name("libgcc_s.so.1")
    if unwinder.exists():
        found.setdefault(unwinder.name, unwinder.resolve())
    return found


def list_libraries(loader: Path, binary: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, path or "not found") as the loader resolves them, without executing `binary`."""
    command = [str(loader), "--list", str(binary)]
    listing = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
    yield from ((match["name"], match["path"]) for match in _LISTED.finditer(os.fsdecode(listing.stdout)))


def compile_all(library: Path, *, keep_sources: bool = True) -> None:
    """Compile a whole directory in a separate process, so that the result depends on the sources alone.

    Unchecked-hash files are loaded regardless of the source's time stamp, which differs after every copy. Without
    sources, each takes the place of its own: half as many files to copy, to read and to write through.
    """
    compiler = ("-S", "-s", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
    in_place = () if keep_sources else ("-b",)
    compiled = subprocess.run(
        [sys.executable, *compiler, *in_place, "-s", str(library), str(library)],
        env={"PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    if compiled.returncode:
        raise bundle.BundleError(
            f"cannot bundle this Python because it does not compile:\n{os.fsdecode(compiled.stdout)}"
        )
    if not keep_sources:
        for source in library.rglob("*.py"):
            source.unlink()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def main(argv: Sequence[str]) -> int:
    """Build a bundle in the directory named on the command line and print its manifest."""
    if len(argv) != 1:
        print("usage: python -m nodeupgrade.node.bundle.build DIRECTORY", file=sys.stderr)
        return 2
    try:
        print(json.dumps(asdict(build(Path(argv[0])))))
    except bundle.BundleError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
