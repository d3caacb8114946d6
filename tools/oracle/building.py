"""Build the oracle: a program that calls one release's own hashing, built from that release's Go module."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.lab.binaries.gobuild import environment
from e2e.lab.binaries.staging import module_file
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.paths import cache_root
from e2e.lab.process import run
from e2e.lab.progress import Progress

SOURCES = Path(__file__).parent / "go"
# Change this whenever the program or its build changes: programs cached under another recipe are rebuilt.
RECIPE = "1"

_FIRST_WITH_GO_MOD = (1, 15)
# Releases before Go modules name their dependencies by commit, which a module proxy cannot resolve. The first release
# with a go.mod names versions of the same months; what it no longer needed is listed here.
_DONOR = Version(1, 15, 0)
_FORMERLY_NEEDED = {
    "github.com/emicklei/go-restful-swagger12": "v0.0.0-20170208215640-dcef7f557305",
    "github.com/juju/ratelimit": "v1.0.2",
}
_REPLACE = re.compile(r"^\s*(\S+) => (\S+) (v\S+)\s*$", re.MULTILINE)
_NEVER_NEEDED = {"vbom.ml/util", "golang.org/x/exp"}
_FLAGS = ("-trimpath", "-tags", "providerless,netgo,osusergo", "-ldflags", "-s -w -checklinkname=0")


def oracle(version: Version, progress: Progress) -> Path:
    """Return the program for one release, building it if it is not cached.

    Raises:
        LabError: Go fails; the message ends with what it printed.
    """
    program = cache_root() / "oracle" / f"{version}-r{RECIPE}"
    with locked(f"oracle-{version}", progress):
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            _build(version, program, progress)
    return program


def _build(version: Version, program: Path, progress: Progress) -> None:
    """Build with separate Go caches, some 3 GB, which are removed afterwards."""
    work = Path(tempfile.mkdtemp(prefix=f"oracle-{version}-", dir=program.parent))
    try:
        progress.say(f"building the oracle of {version}: fetching Go modules")
        module = work / "module"
        module.mkdir()
        go = environment(work)
        release = _download(version, module, go)
        _write_sources(version, module)
        if version.release < _FIRST_WITH_GO_MOD:
            _write_old_module(version, release, _download(_DONOR, module, go), module)
        else:
            (module / "go.mod").write_text(module_file(version, (release / "go.mod").read_text()))
        run("go", "list", "-deps", ".", cwd=module, env=go, timeout=1200)
        progress.say(f"building the oracle of {version}: compiling (minutes)")
        built = subprocess.run(
            ["nice", "-n", "5", "go", "build", *_FLAGS, "-o", str(work / "oracle"), "."],
            cwd=module, env=go, text=True, capture_output=True, check=False,
        )  # fmt: skip
        if built.returncode:
            raise LabError(f"cannot build the oracle of {version}:\n{built.stderr[-3000:]}")
        (work / "oracle").rename(program)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(version: Version, module: Path, go: dict[str, str]) -> Path:
    """Download a release, and return the directory of its files."""
    if not (module / "go.mod").exists():
        (module / "go.mod").write_text("module nodeupgrade.dev/oracle\n")
    answer = run("go", "mod", "download", "-json", f"k8s.io/kubernetes@{version.tag}", cwd=module, env=go, timeout=1200)
    return Path(json.loads(answer.stdout)["Dir"])


def _write_sources(version: Version, module: Path) -> None:
    core = "pkg/apis/core" if version.release >= (1, 9) else "pkg/api"
    qos = (SOURCES / "qos.go").read_text().replace("QOS_PACKAGE", f"k8s.io/kubernetes/{core}/v1/helper/qos")
    (module / "qos.go").write_text(qos)
    gates = "gates.go" if version.release >= _FIRST_WITH_GO_MOD else "no_gates.go"
    for name in ("main.go", gates):
        shutil.copy(SOURCES / name, module / name)


def _write_old_module(version: Version, release: Path, donor: Path, module: Path) -> None:
    """Write a go.mod for a release that had none, with its own staging libraries, which are among its files."""
    lines = ["module nodeupgrade.dev/oracle", "", "go 1.12", "", f"require k8s.io/kubernetes {version.tag}"]
    staging = sorted(path.name for path in (release / "staging/src/k8s.io").iterdir())
    for name in staging:
        copy = module / "staging" / name
        shutil.copytree(release / "staging/src/k8s.io" / name, copy, ignore=shutil.ignore_patterns("_examples"))
        (copy / "go.mod").write_text(f"module k8s.io/{name}\n")
        lines += [f"require k8s.io/{name} v0.0.0", f"replace k8s.io/{name} => ./staging/{name}"]
    inotify = module / "exp" / "inotify"
    inotify.mkdir(parents=True)
    shutil.copy(SOURCES / "inotify.go", inotify)
    (module / "exp" / "go.mod").write_text("module golang.org/x/exp\n")
    lines += ["require golang.org/x/exp v0.0.0", "replace golang.org/x/exp => ./exp"]
    for path, target, tag in _REPLACE.findall((donor / "go.mod").read_text()):
        if path not in _NEVER_NEEDED and path.removeprefix("k8s.io/") not in staging:
            lines += [f"require {path} {tag}", f"replace {path} => {target} {tag}"]
    lines += [f"require {path} {tag}" for path, tag in _FORMERLY_NEEDED.items()]
    (module / "go.mod").write_text("\n".join([*lines, ""]))
