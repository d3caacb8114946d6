"""Lays out a Go module that builds a kubelet from before 1.15.

Its module zip contains its staging libraries, and names its dependencies by revisions, which the proxy does not serve.
So `VERSION.txt` beside this file lists a version of every dependency: `PATH VERSION`, or `PATH OTHER-PATH VERSION`
where it is served under another name. Most are the revisions that the release itself names; the others are the nearest
that are served, of code that a node of the lab does not run (clouds, volumes), or say why in `EDITS`. Nothing of
Kubernetes is changed.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError

FIRST_WITH_MODULES = (1, 15)
_HERE = Path(__file__).parent
_STAGING = Path("staging/src/k8s.io")
_STUBS = {
    # No version with the calls of that time is served: no Portworx volumes.
    "1.7.0": {"github.com/libopenstorage/openstorage": "openstorage"},
}


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that is replaced in every Go file of a dependency when it is built; the comment says why."""

    module: str
    kubelets: tuple[str, ...]
    old: str
    new: str


EDITS = (
    # An alphabet of 63 symbols, with which it generates code: from Go 1.22 on it panics, used or not.
    Edit("github.com/ugorji/go", ("1.7.0", "1.9.11", "1.12.10"), "0123456789__", "0123456789_-"),
    # From Go 1.10 on net/http keeps a broken connection for ever unless its error is of this kind, as it later was.
    Edit(
        "golang.org/x/net", ("1.7.0", "1.9.11"),
        'ErrNoCachedConn = errors.New("http2: no cached connection was available")',
        'ErrNoCachedConn error = noCached{errors.New("http2: no cached connection was available")}\n\n'
        "type noCached struct{ error }\n\nfunc (noCached) IsHTTP2NoCachedConnError() {}",
    ),
    # Its next 49 commits are not served, of which the kubelet needs one: this function is public.
    Edit("github.com/opencontainers/runc", ("1.7.0",), "expandSlice", "ExpandSlice"),
    # The only version served names this module as it was called later; Go refuses both names side by side.
    Edit("github.com/codedellemc/goscaleio", ("1.7.0",), "github.com/sirupsen/logrus", "github.com/Sirupsen/logrus"),
    # The nearest containerd that is served takes its empty message from there.
    Edit(
        "github.com/google/cadvisor", ("1.9.11",),
        "github.com/golang/protobuf/ptypes/empty", "github.com/gogo/protobuf/types",
    ),
    # The domain no longer serves it; Kubernetes itself moved to this copy.
    Edit("k8s.io/kube-openapi", ("1.13.12",), "bitbucket.org/ww/goautoneg", "github.com/munnerz/goautoneg"),
)  # fmt: skip


def lay_out(version: Version, source: Path, module: Path, fetched: Callable[[str], Path]) -> None:
    """Write the module: `go.mod`, the staging libraries, and copies of the dependencies that are edited.

    Args:
        version: of the kubelet.
        source: unpacked module `k8s.io/kubernetes`.
        module: the module's directory.
        fetched: returns the directory of a module such as `example.com/module@v1.2.3`, after fetching it.

    Raises:
        LabError: its dependencies are not recorded.
    """
    found = dependencies(version)
    replaces = {path: f"{target} {release}" for path, (target, release) in found.items()}
    for library in sorted((source / _STAGING).iterdir()):
        replaces[f"k8s.io/{library.name}"] = _own_copy(library, module, f"k8s.io/{library.name}")
    for path, stub in _STUBS.get(str(version), {}).items():
        replaces[path] = _own_copy(_HERE / stub, module, path)
    for edit in EDITS:
        if str(version) in edit.kubelets:
            target, release = found[edit.module]
            replaces[edit.module] = _own_copy(fetched(f"{target}@{release}"), module, edit.module)
            _apply(edit, module / replaces[edit.module])
    (module / "go.mod").write_text(_module_file(version, found, replaces))


def dependencies(version: Version) -> dict[str, tuple[str, str]]:
    """Return path → path and version of what is built instead.

    Raises:
        LabError: they are not recorded.
    """
    file = _HERE / f"{version}.txt"
    if not file.is_file():
        known = ", ".join(sorted((each.stem for each in _HERE.glob("*.txt")), key=Version.parse))
        message = f"cannot build Kubernetes {version} because the versions of its dependencies are not recorded"
        raise LabError(f"{message}; take {known}, or put its binaries below NODEUPGRADE_LAB_BINARIES")
    lines = [line.split() for line in file.read_text().splitlines()]
    return {words[0]: (words[-2], words[-1]) for words in lines}


def _own_copy(source: Path, module: Path, path: str) -> str:
    """Copy a module into ours, where it can be edited, and return the path that replaces it."""
    name = f"own/{path.replace('/', '+')}"
    shutil.copytree(source, module / name, copy_function=shutil.copyfile)
    for directory in (module / name, *(each for each in (module / name).rglob("*") if each.is_dir())):
        directory.chmod(0o755)
    if not (module / name / "go.mod").exists():
        (module / name / "go.mod").write_text(f"module {path}\n")
    return f"./{name}"


def _apply(edit: Edit, directory: Path) -> None:
    changed = 0
    for file in directory.rglob("*.go"):
        text = file.read_bytes()
        if (edited := text.replace(edit.old.encode(), edit.new.encode())) != text:
            file.write_bytes(edited)
            changed += 1
    if not changed:
        raise LabError(f"cannot edit {edit.module} because {edit.old} does not occur in it")


def _module_file(version: Version, found: dict[str, tuple[str, str]], replaces: dict[str, str]) -> str:
    """Return `go.mod`; of Go 1.16, whose loop variables the code was written for."""
    requires = {path: _any_version(path) for path in replaces}
    requires |= {path: release for path, (target, release) in found.items() if target == path}
    lines = [
        "module nodeupgrade.dev/lab/components",
        "",
        "go 1.16",
        "",
        "require (",
        f"\tk8s.io/kubernetes {version.tag}",
    ]
    lines += [f"\t{path} {release}" for path, release in sorted(requires.items())]
    lines += [")", "", "replace ("]
    lines += [f"\t{path} => {target}" for path, target in sorted(replaces.items())]
    return "\n".join([*lines, ")", ""])


def _any_version(path: str) -> str:
    """Return a version that a path may have, to be replaced."""
    major = re.fullmatch(r"gopkg\.in/.*\.v(\d+)", path)
    return f"v{major[1] if major else 0}.0.0"
