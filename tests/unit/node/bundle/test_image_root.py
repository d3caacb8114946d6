"""The root directory of the image holds everything that our programs import and start, no shell, and little else."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePath

import pytest

import nodeupgrade
from nodeupgrade import bundle
from nodeupgrade.fleet.agents.manifests import PROVIDE
from nodeupgrade.node.bundle import build, image_root
from tests.builders.checkout import CHECKOUT

LIMIT = 250_000_000
"""Bytes of the image, with its bundle."""

SHELLS = frozenset({"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "toybox", "zsh"})
IMPORTS = """
import importlib, pkgutil, nodeupgrade
names = [each.name for each in pkgutil.walk_packages(nodeupgrade.__path__, "nodeupgrade.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""
PYTHON = f"/{image_root.APPLICATION}/venv/bin/python"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
"""
LOCKED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changing the root directory needs root")


def installed(name: str, packages: Path) -> None:
    """Copy an installed distribution into another directory of packages, if it is one for this platform.

    Without what is to be left out of the image, of which there are thousands of modules to compile.
    """
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        return
    for entry in files:
        left_out = entry.name != "__init__.py" and entry.parent.as_posix() in image_root.UNUSED
        if not left_out and ".." not in entry.parts and "__pycache__" not in entry.parts:
            (packages / entry).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(str(entry.locate())), packages / entry)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root directory of an image of the packages that are installed here, in the versions of the lock."""
    work = tmp_path_factory.mktemp("image")
    application = work / "application"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(application / "venv")], check=True, timeout=120)
    (packages,) = application.glob("venv/lib/python*/site-packages")
    for name in LOCKED.findall((CHECKOUT / "requirements.lock").read_text("utf-8")):
        installed(name, packages)
    shutil.copytree(Path(nodeupgrade.__file__).parent, packages / "nodeupgrade")
    build.compile_all(packages)
    for each in image_root.UNUSED:
        for path in ("model.py", "__pycache__/model.cpython-311.pyc", "below/__init__.py"):
            (packages / each / path).parent.mkdir(exist_ok=True)
            (packages / each / path).touch()
    build.build(application / "bundle")
    image_root.assemble(application, work / "parts")
    shutil.copytree(work / "parts" / image_root.OWN, work / "root", symlinks=True)
    shutil.copytree(work / "parts" / image_root.BASE, work / "root", symlinks=True, dirs_exist_ok=True)
    return work / "root"


@pytest.fixture
def volume(root: Path) -> Iterator[Path]:
    """The volume into which pods copy the bundle."""
    (root / "bundle").mkdir()
    yield root / "bundle"
    shutil.rmtree(root / "bundle")


def inside(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program as in a container of the image: with a /proc, and nothing of this machine."""
    script = 'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    prefix = ("unshare", "--mount", "--", "sh", "-c", script, str(root))
    environment = {"PATH": f"{Path(PYTHON).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "USER": "nodeupgrade"}
    return subprocess.run(
        [*prefix, *argv], capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environment}
    )


def test_every_module_of_ours_can_be_imported(root: Path) -> None:
    done = inside(root, PYTHON, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300, "all of them"


def test_a_client_of_the_api_server_can_be_made(root: Path) -> None:
    """What imports only when it is used."""
    script = (
        "import asyncio, pathlib, ssl; from nodeupgrade.cluster.client.client import KubeClient; import kopf\n"
        "assert ssl.create_default_context().cert_store_stats()['x509_ca'] > 50\n"
        "async def main():\n"
        "    async with KubeClient.open(pathlib.Path('/tmp/kubeconfig')) as kube:\n"
        "        kube.session()\n"
        "asyncio.run(main())\n"
    )
    (root / "tmp/kubeconfig").write_text(KUBECONFIG)
    done = inside(root, PYTHON, "-c", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-c", "from nodeupgrade.cli.main import main; main()", "--help"), "Usage: "),
        (("-m", "nodeupgrade.controlplane"), "cannot start because AGENT_IMAGE is not set"),
        (("-m", "nodeupgrade.node.agent"), "the agent is started by the operator, in a pod"),
    ],
)
def test_programs_start(root: Path, argv: tuple[str, ...], said: str) -> None:
    done = inside(root, PYTHON, *argv)
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("program", image_root.PROGRAMS)
def test_what_pods_start_is_there(root: Path, program: str) -> None:
    assert inside(root, program, "--version").returncode == 0


def test_a_bundle_is_provided_from_it(root: Path, volume: Path) -> None:
    assert inside(root, *PROVIDE).returncode == 0
    assert (volume / "nothing").read_bytes() == b""
    done = inside(root, *bundle.command(PurePath("/bundle"), bundle.COPY))
    assert "usage" in done.stdout + done.stderr


def test_there_is_no_shell_and_no_package_manager(root: Path) -> None:
    programs = {path.name for path in root.rglob("*") if path.is_file() and os.access(path, os.X_OK)}
    assert programs & (SHELLS | {"apt", "apt-get", "dpkg", "perl", "pip", "pip3"}) == set()
    assert inside(root, "sh", "-c", "true").returncode == 127


def test_it_is_small_and_without_what_nobody_imports(root: Path) -> None:
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    total = sum(path.stat().st_size for path in files)
    assert total < LIMIT
    (packages,) = root.glob(f"{image_root.APPLICATION}/venv/lib/python*/site-packages")
    assert (packages / "kubernetes/aio/config").is_dir()
    for each in image_root.UNUSED:
        assert {path.name.partition(".")[0] for path in (packages / each).rglob("*")} == {"__init__", "__pycache__"}


def test_what_is_left_out_exists_in_the_package() -> None:
    """A new version of it that is laid out otherwise would make the rule an empty one."""
    packages = Path(str(distribution("kubernetes").locate_file("")))
    assert [each for each in image_root.UNUSED if not (packages / each).is_dir()] == []
