"""Tests for staging, verifying, and retiring bundles."""

import errno
import os
import shutil
from pathlib import Path, PurePath, PurePosixPath

import pytest

from nodeupgrade import bundle
from nodeupgrade.node.bundle import store
from tests.builders.as_root import AS_ROOT


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """As much of a bundle as staging looks at."""
    root = tmp_path / "small"
    for name in (bundle.LOADER, bundle.INTERPRETER):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(b"\x7fELF")
        (root / name).chmod(0o755)
    store.write_manifest(root, version="1.2.3", python="3.11.2", machine="x86_64")
    return root


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "not executable"])
def test_damage_is_found_and_staging_repairs_it(small: Path, tmp_path: Path, damage: str) -> None:
    node, verified = tmp_path / "node", store.Verified()
    for _ in range(2):
        staged = store.stage(small, node, verified=verified)
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
        store.verify(staged)
    assert store.stage(small, node, verified=verified) == staged
    assert store.verify(staged) == store.verify(small)
    assert [path.name for path in node.iterdir()] == [staged.name]


def test_of_a_damaged_bundle_no_copy_is_left(small: Path, tmp_path: Path) -> None:
    (small / bundle.LOADER).write_bytes(b"\x7fELF?")

    with pytest.raises(bundle.BundleError, match="because its content is"):
        store.stage(small, tmp_path / "node")

    assert [*(tmp_path / "node").iterdir()] == []


def test_staging_again_writes_nothing(small: Path, tmp_path: Path) -> None:
    before = store.stage(small, tmp_path / "node").stat().st_ino

    assert store.stage(small, tmp_path / "node").stat().st_ino == before


def test_what_was_intact_is_not_read_again_until_a_file_changes(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [store.NodeBundles(source=small, parent=tmp_path / name, on_node=PurePosixPath("/"), verified=verified)
             for verified in [store.Verified()] for name in ("one", "two")]  # fmt: skip
    read, verify = list[Path](), store.verify

    def verified_at(root: Path) -> bundle.Manifest:
        read.append(root)
        return verify(root)

    monkeypatch.setattr(store, "verify", verified_at)
    for _ in range(3):
        for node in nodes:
            node.stage()

    staged = store.read_manifest(small).name
    copies = [tmp_path / name / f".incoming-{staged}" for name in ("one", "two")]
    absent = [tmp_path / name / staged for name in ("one", "two")]
    assert sorted(read) == sorted(copies + absent)


@AS_ROOT
def test_a_full_disk_is_told_in_one_sentence_and_left_clean(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(shutil, "copyfile", full)

    with pytest.raises(OSError, match=r"^\d files could not be written, first: .*No space left on device") as raised:
        store.stage(small, tmp_path / "node")

    assert len(str(raised.value)) < 300
    assert list((tmp_path / "node").iterdir()) == []


def test_bundles_of_other_versions_are_retired(small: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    staged = store.stage(small, node)
    for name in ("0.0.1-older", ".incoming-0.0.2-broken"):
        (node / name / "lib").mkdir(parents=True)

    store.retire(node, keep=staged.name)

    assert list(node.iterdir()) == [staged]


class Labels:
    """The SELinux labels of files, beside the files themselves: this machine may have none."""

    def __init__(self, *, inherited: bytes | None, refuses: int | None = None) -> None:
        self.set: dict[str, bytes] = {}
        self._inherited, self._refuses = inherited, refuses

    def getxattr(self, path: PurePath, attribute: str) -> bytes:
        if self._inherited is None:
            raise OSError(errno.ENODATA, "No data available")
        return self.set.get(str(path), self._inherited)

    def setxattr(self, path: PurePath, attribute: str, value: bytes) -> None:
        assert attribute == "security.selinux"
        if self._refuses is not None:
            raise OSError(self._refuses, "refused")
        self.set[str(path)] = value


@pytest.mark.parametrize("again", [False, True], ids=["a new bundle", "one that is there already"])
def test_where_selinux_labels_files_systemd_may_execute_the_programs(small: Path, tmp_path: Path, again: bool) -> None:
    parent, labels = tmp_path / "bundles", Labels(inherited=b"system_u:object_r:var_lib_t:s0\0")
    if again:
        store.stage(small, parent, Labels(inherited=None))

    target = store.stage(small, parent, labels)

    programs = {path for _, path in store.files(target) if path.stat().st_mode & 0o100}
    assert programs
    assert {path.name for path in programs} == {Path(path).name for path in labels.set}
    assert {*labels.set.values()} == {b"system_u:object_r:bin_t:s0\0"}


@pytest.mark.parametrize(
    "labels",
    [Labels(inherited=None), Labels(inherited=b"odd"), Labels(inherited=b"a:b:c:s0\0", refuses=errno.EOPNOTSUPP)],
    ids=["no SELinux", "not a label", "none can be set"],
)
def test_without_labels_bundles_are_staged_all_the_same(small: Path, tmp_path: Path, labels: Labels) -> None:
    assert store.stage(small, tmp_path / "bundles", labels).is_dir()
    assert labels.set == {}
