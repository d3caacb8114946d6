import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

import nodeupgrade
from nodeupgrade.agent import bundle, bundling, copy

EVERYTHING_USED = "import asyncio, grpc, google.protobuf.message, ssl, structlog, tenacity, yaml"
THE_EXECUTOR = "import nodeupgrade.agent.host.executor"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="changing the root directory needs root")


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
    bundling.build(root / "bundle")
    return root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """As much of a bundle as staging looks at."""
    root = tmp_path / "small"
    for name in (bundle.LOADER, bundle.INTERPRETER):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(b"\x7fELF")
        (root / name).chmod(0o755)
    bundle.write_manifest(root, version="1.2.3", python="3.11.2", machine="x86_64")
    return root


def run(argv: tuple[str, ...], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


def python(root: PurePath, code: str) -> tuple[str, ...]:
    """The bundle's own command, with code in place of a module."""
    *interpreter, _, _ = bundle.command(root, "module")
    return (*interpreter, "-c", code)


@AS_ROOT
def test_a_bundle_runs_where_nothing_else_exists(empty_root: Path) -> None:
    report = f"{EVERYTHING_USED}; {THE_EXECUTOR}; import sys; print(sys.prefix, *sys.path)"
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


def test_the_same_sources_make_the_same_bundle(empty_root: Path, tmp_path: Path) -> None:
    assert bundling.build(tmp_path / "again") == bundle.verify(empty_root / "bundle")


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "not executable"])
def test_damage_is_found_and_staging_repairs_it(small: Path, tmp_path: Path, damage: str) -> None:
    node = tmp_path / "node"
    staged = bundle.stage(small, node)
    victim = staged / bundle.LOADER
    match damage:
        case "changed":
            victim.write_bytes(b"\x7fELF?")
        case "missing":
            victim.unlink()
        case "added":
            (staged / "lib/libevil.so").touch()
        case _:
            victim.chmod(0o644)

    with pytest.raises(bundle.BundleError, match="so that it is staged again"):
        bundle.verify(staged)
    assert bundle.stage(small, node) == staged
    assert bundle.verify(staged) == bundle.verify(small)
    assert [path.name for path in node.iterdir()] == [staged.name]


def test_staging_again_writes_nothing(small: Path, tmp_path: Path) -> None:
    before = bundle.stage(small, tmp_path / "node").stat().st_ino

    assert bundle.stage(small, tmp_path / "node").stat().st_ino == before


@AS_ROOT
def test_a_full_disk_is_told_in_one_sentence_and_left_clean(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(shutil, "copyfile", full)

    with pytest.raises(OSError, match=r"^\d files could not be written, first: .*No space left on device") as raised:
        bundle.stage(small, tmp_path / "node")

    assert len(str(raised.value)) < 300
    assert list((tmp_path / "node").iterdir()) == []


def test_bundles_of_other_versions_are_retired(small: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    staged = bundle.stage(small, node)
    for name in ("0.0.1-older", ".incoming-0.0.2-broken"):
        (node / name / "lib").mkdir(parents=True)

    bundle.retire(node, kept=staged.name)

    assert list(node.iterdir()) == [staged]


def test_copy_brings_a_file_out_of_an_image_without_a_shell(empty_root: Path) -> None:
    (empty_root / "kubelet").write_bytes(b"a kubelet")
    (empty_root / "staging").mkdir(exist_ok=True)
    argv = bundle.command(PurePath("/bundle"), "nodeupgrade.agent.copy", "/kubelet", "/staging/kubelet")

    seen = run(("chroot", str(empty_root), *argv))

    digest = hashlib.sha256(b"a kubelet").hexdigest()
    assert seen.stdout == f"{digest}  /staging/kubelet\n", seen.stderr
    assert (empty_root / "staging/kubelet").read_bytes() == b"a kubelet"
    assert (empty_root / "staging/kubelet").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("source", "why"), [("absent", "does not exist"), ("/dev/null", "not a regular file"), (".", "not a regular file")]
)
def test_copy_says_why_it_cannot(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(copy.CopyError, match=why):
        copy.copy(tmp_path / source, tmp_path / "copied")

    assert list(tmp_path.iterdir()) == []
