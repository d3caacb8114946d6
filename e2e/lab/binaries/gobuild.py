"""Build Kubernetes components from their public Go modules, with temporary Go caches."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.binaries.oldkubelets import module as oldkubelets
from e2e.lab.binaries.staging import module_file
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.process import run
from e2e.lab.progress import Progress

# Changing this recipe requires a new tag: binaries cached under another recipe are then rebuilt.
RECIPE = "2"

# providerless leaves out the SDKs of in-tree cloud providers (≤ 1.30), half of the build time; the others avoid the
# C library even in builds with cgo.
_TAGS = "providerless,netgo,osusergo"
_STAMPED = ("k8s.io/component-base/version", "k8s.io/kubernetes/pkg/version", "k8s.io/client-go/pkg/version")
_PACKAGE_LINE = re.compile(r"^[\w.~-]+(/[\w.~-]+)*$")


def build(
    version: Version,
    components: Sequence[str],
    destination: Path,
    scratch: Path,
    progress: Progress,
    *,
    own: Mapping[str, str] | None = None,
) -> None:
    """Build ``components`` of one version into ``destination``.

    Args:
        version: exact Kubernetes version.
        components: directory names below ``cmd/`` of Kubernetes, such as ``kubelet``, or paths such as
            ``test/images/agnhost``.
        destination: existing directory for the binaries.
        scratch: directory for Go's caches during the build (several GB); they are removed afterwards.
        progress: receives the number of compiled packages.
        own: programs of ours that use its packages, as name → Go source.

    Raises:
        LabError: if Go fails; the message ends with the last lines it printed.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    for stale in scratch.glob(f"go-{version}-*"):  # of a build that was killed; the caller holds the version's lock
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f"go-{version}-", dir=scratch))
    try:
        packages = [_package(component) for component in components]
        for name, source in (own or {}).items():
            (work / "module" / name).mkdir(parents=True)
            (work / "module" / name / "main.go").write_text(source)
            packages.append(f"./{name}")
        _build_in(work, version, packages, destination, progress)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _package(component: str) -> str:
    return f"k8s.io/kubernetes/{component if '/' in component else f'cmd/{component}'}"


def needs_c_compiler(version: Version) -> bool:
    """Report whether gcc is needed: the cAdvisor of these kubelets asks the C library for the clock tick."""
    return version.release < (1, 17)


def _build_in(work: Path, version: Version, packages: Sequence[str], destination: Path, progress: Progress) -> None:
    title = f"building {', '.join(package.rpartition('/')[2] for package in packages)} {version}"
    progress.say(f"{title}: fetching Go modules")
    go = _Go(work / "module", environment(work, cgo=needs_c_compiler(version)))
    go.directory.mkdir(exist_ok=True)
    if version.release < oldkubelets.FIRST_WITH_MODULES:
        go.lay_out_old(version, packages)
    else:
        text = go.download(f"k8s.io/kubernetes@{version.tag}", "GoMod").read_text()
        (go.directory / "go.mod").write_text(module_file(version, text))
    listed = go.answer("list", "-tags", _TAGS, "-deps", *packages)
    go.build([*_build_flags(version, destination), *packages], title, len(listed.split()), progress)


def environment(work: Path, *, cgo: bool = False) -> dict[str, str]:
    """Return the environment of a Go build with caches below ``work``, which are removed with it."""
    wanted = {
        "CGO_ENABLED": "1" if cgo else "0",
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false",
        "GOWORK": "off",
        "GOMODCACHE": str(work / "modules"),
        "GOCACHE": str(work / "objects"),
        "GOPATH": str(work / "path"),
    }
    return {**os.environ, **wanted}


def _build_flags(version: Version, destination: Path) -> list[str]:
    stamps = {"gitVersion": version.tag, "gitMajor": version.major, "gitMinor": version.minor, "gitTreeState": "clean"}
    flags = ["-s", "-w", "-checklinkname=0"]  # old golang.org/x modules reach into the runtime by linkname
    if needs_c_compiler(version):  # static all the same: the node's C library is not the one of this machine
        flags += ["-linkmode external", "-extldflags -static"]
    flags += [f"-X {package}.{name}={value}" for package in _STAMPED for name, value in stamps.items()]
    return ["-v", "-trimpath", "-tags", _TAGS, "-ldflags", " ".join(flags), "-o", f"{destination}/"]


@dataclass(frozen=True, slots=True)
class _Go:
    """The go command in one module."""

    directory: Path
    environment: Mapping[str, str]

    def answer(self, *arguments: str) -> str:
        return run("go", *arguments, cwd=self.directory, env=self.environment, timeout=1200).stdout

    def download(self, module: str, what: str) -> Path:
        """Fetch a module, and return the path of its `Dir` or its `GoMod`."""
        return Path(json.loads(self.answer("mod", "download", "-json", module))[what])

    def lay_out_old(self, version: Version, packages: Sequence[str]) -> None:
        """Lay out the module of a kubelet that has no module file."""
        if list(packages) != [_package("kubelet")]:
            raise LabError(f"cannot build {', '.join(packages)} {version}: of that age, only the kubelet is built")
        source = self.download(f"k8s.io/kubernetes@{version.tag}", "Dir")
        oldkubelets.lay_out(version, source, self.directory, lambda module: self.download(module, "Dir"))

    def build(self, arguments: Sequence[str], title: str, total: int, progress: Progress) -> None:
        """Build, counting the packages that go prints on standard error as it compiles them."""
        compiled, complaints = 0, list[str]()
        command = ["nice", "-n", "5", "go", "build", *arguments]
        with subprocess.Popen(
            command, cwd=self.directory, env=self.environment, text=True, stderr=subprocess.PIPE
        ) as process:
            try:
                for line in process.stderr or ():
                    if _PACKAGE_LINE.match(line):
                        compiled += 1
                        progress.step(title, min(compiled, total - 1), total)
                    else:
                        complaints = [*complaints[-30:], line.rstrip()]
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            raise LabError(f"{title} failed:\n" + "\n".join(complaints))
        progress.step(title, total, total)
