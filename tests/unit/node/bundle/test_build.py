"""Tests for a bundle that is built here, and for the programs that start from it."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

import nodeupgrade
from nodeupgrade import bundle
from nodeupgrade.node import exit_codes
from nodeupgrade.node.bundle import build, store
from nodeupgrade.node.executor import units
from nodeupgrade.node.own_directories import PROGRAM_BYTES, PROGRAM_FILES
from tests.builders.as_root import AS_ROOT

EVERYTHING_USED = "import asyncio, grpc, google.protobuf.message, ssl, structlog, tenacity, yaml"
THE_PROGRAMS = (
    "import nodeupgrade.node.executor.process, nodeupgrade.node.lease_keeper.process, nodeupgrade.node.shield.process, "
    "nodeupgrade.node.agent.copy"
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Bundles are made of a copy of the package, so that nobody edits it between two of them."""
    copied = tmp_path_factory.mktemp("sources") / "nodeupgrade"
    shutil.copytree(Path(nodeupgrade.__file__).parent, copied)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodeupgrade, "__file__", str(copied / "__init__.py"))
        yield


@pytest.fixture(scope="module")
def empty_root(sources: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory that holds a bundle and nothing else."""
    root = tmp_path_factory.mktemp("root")
    build.build(root / "bundle")
    return root


def run(argv: tuple[str, ...], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, env=env)


def python(root: PurePath, code: str) -> tuple[str, ...]:
    """The bundle's own command, with code in place of a module."""
    *interpreter, _, _ = bundle.command(root, "module")
    return (*interpreter, "-c", code)


@AS_ROOT
def test_a_bundle_runs_where_nothing_else_exists(empty_root: Path) -> None:
    report = f"{EVERYTHING_USED}; {THE_PROGRAMS}; import sys; print(sys.prefix, *sys.path)"
    root = PurePath("/bundle")

    seen = run(("chroot", str(empty_root), *python(root, report)), bundle.environment(root))

    assert seen.stderr == ""
    assert all(place.startswith("/bundle") for place in seen.stdout.split())


def test_no_variable_of_the_caller_reaches_the_interpreter(empty_root: Path, tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('the wrong yaml')")
    hostile = {"PYTHONHOME": "/nowhere", "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "/nowhere", "LANG": "xx"}

    seen = run(python(empty_root / "bundle", "import yaml; print(yaml.__file__)"), hostile)

    assert seen.stdout.startswith(str(empty_root / "bundle")), seen.stderr


def test_the_kubernetes_client_stays_out(empty_root: Path) -> None:
    seen = run(python(empty_root / "bundle", "import kubernetes"))

    assert "No module named 'kubernetes'" in seen.stderr


@pytest.mark.parametrize("package", ["cli", "controlplane", "simulation"])
def test_what_no_program_on_the_host_needs_stays_out(empty_root: Path, package: str) -> None:
    seen = run(python(empty_root / "bundle", f"import nodeupgrade.{package}"))

    assert f"No module named 'nodeupgrade.{package}'" in seen.stderr


@AS_ROOT
def test_the_executor_starts_from_it(empty_root: Path) -> None:
    """As systemd tries it out: it says that it is able, and nothing else that can go wrong ends like that."""
    argv = bundle.command(PurePath("/bundle"), bundle.EXECUTOR, units.TRY_OUT)

    seen = run(("chroot", str(empty_root), *argv), bundle.environment(PurePath("/bundle")))

    assert seen.returncode == exit_codes.EXIT_ABLE, seen.stderr


@AS_ROOT
def test_the_executor_finds_no_run_where_there_is_none(empty_root: Path) -> None:
    argv = bundle.command(PurePath("/bundle"), bundle.EXECUTOR)

    seen = run(("chroot", str(empty_root), *argv), bundle.environment(PurePath("/bundle")))

    assert (seen.returncode, json.loads(seen.stderr)["event"]) == (0, "no_unfinished_run"), seen.stderr


@AS_ROOT
def test_the_lease_keeper_starts_from_it(empty_root: Path) -> None:
    options = ("--kubeconfig", "/none", "--environment", "/none", "--node", "node-a", "--seconds", "1")
    argv = bundle.command(PurePath("/bundle"), bundle.LEASE_KEEPER, *options)

    seen = run(("chroot", str(empty_root), *argv), bundle.environment(PurePath("/bundle")))

    assert (seen.returncode, json.loads(seen.stderr)["event"]) == (0, "lease_unavailable"), seen.stderr


@AS_ROOT
def test_the_shield_starts_from_it(empty_root: Path) -> None:
    for directory in ("runs", "state"):
        (empty_root / directory).mkdir()
    argv = bundle.command(PurePath("/bundle"), bundle.SHIELD, "--socket", "/s", "--runs", "/runs", "--state", "/state")

    seen = run(("chroot", str(empty_root), *argv), bundle.environment(PurePath("/bundle")))

    assert (seen.returncode, json.loads(seen.stderr)["event"]) == (0, "no_unfinished_run"), seen.stderr


def test_two_of_it_take_no_more_of_a_node_than_is_planned_for(empty_root: Path) -> None:
    entries = [path.lstat() for path in (empty_root / "bundle").rglob("*")]

    assert 2 * sum(512 * entry.st_blocks for entry in entries) <= PROGRAM_BYTES
    assert 2 * len(entries) <= PROGRAM_FILES


def test_it_has_each_module_once_and_without_its_source(empty_root: Path) -> None:
    """Every file is copied to the node, read again and written through."""
    root = empty_root / "bundle"

    assert [*root.rglob("*.py"), *root.rglob("__pycache__")] == []
    assert next(root.rglob("os.pyc")).is_file()


def test_the_same_sources_make_the_same_bundle(empty_root: Path, tmp_path: Path) -> None:
    assert build.build(tmp_path / "again") == store.verify(empty_root / "bundle")


def test_copy_brings_a_file_out_of_an_image_without_a_shell(empty_root: Path) -> None:
    (empty_root / "kubelet").write_bytes(b"a kubelet")
    (empty_root / "staging").mkdir(exist_ok=True)
    (empty_root / "link").symlink_to("/proc/1/root/kubelet")

    seen = run(copying(empty_root, "/kubelet"))

    digest = hashlib.sha256(b"a kubelet").hexdigest()
    assert seen.stdout == f"{digest}  /staging/kubelet\n", seen.stderr
    assert (empty_root / "staging/kubelet").read_bytes() == b"a kubelet"
    assert (empty_root / "staging/kubelet").stat().st_mode & 0o777 == 0o755

    refused = run(copying(empty_root, "/link"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: cannot copy /link: it leads to /proc/1/root")


LOADED = "the library of the image was loaded"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("kept_out", [True, False], ids=["as the pod does it", "control"])
def test_no_library_of_an_image_is_loaded(empty_root: Path, tmp_path: Path, kept_out: bool) -> None:
    """With the variables and the empty file of the artifact's pod; without them, the loader obeys the image."""
    text = f'#include <unistd.h>\n__attribute__((constructor)) static void f(void) {{ write(2, "{LOADED}", 35); }}'
    options = ("-shared", "-fPIC", "-x", "c", "-", "-o", str(empty_root / "hostile.so"))
    subprocess.run(["cc", *options], input=text.encode(), check=True, capture_output=True)
    (empty_root / "kubelet").write_bytes(b"a kubelet")
    (empty_root / "staging").mkdir(exist_ok=True)
    (empty_root / "etc").mkdir(exist_ok=True)
    (empty_root / "etc/ld.so.preload").write_text("/hostile.so\n")
    (tmp_path / "nothing").touch()
    command = copying(empty_root, "/kubelet")
    masked = command[5].replace("&& exec", f"&& mount --bind {tmp_path}/nothing {empty_root}/etc/ld.so.preload && exec")
    said = []
    for variables in ({}, {"LD_PRELOAD": "/hostile.so"}, {"LD_AUDIT": "/hostile.so"}):
        given = dict.fromkeys(variables, "") if kept_out else variables
        script = masked if kept_out else command[5]
        argv = [*command[:5], script.replace("exec chroot", f"exec env {_words(given)} chroot"), *command[6:]]
        seen = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert seen.returncode == 0, seen.stderr
        said.append(LOADED in seen.stderr)

    assert said == [False] * 3 if kept_out else any(said)


def _words(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


def copying(root: Path, source: str) -> tuple[str, ...]:
    """Return the command line that copies a file in a container of an image: it has a /proc."""
    argv = bundle.command(PurePath("/bundle"), bundle.COPY, source, "/staging/kubelet")
    script = 'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return ("unshare", "--mount", "--", "sh", "-c", script, str(root), *argv)
