"""Tests the Go module of kubelets that have no module file."""

import re
from pathlib import Path

import pytest

from e2e.lab.binaries.oldkubelets.module import EDITS, dependencies, lay_out
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError

RECORDED = "1.7.0", "1.9.11", "1.12.10", "1.13.12"


@pytest.mark.parametrize("version", RECORDED)
def test_everything_is_replaced_by_a_recorded_version_or_an_edited_copy(tmp_path: Path, version: str) -> None:
    source, module = tmp_path / "kubernetes", tmp_path / "module"
    (source / "staging/src/k8s.io/api/core").mkdir(parents=True)
    module.mkdir()
    fetched: list[str] = []

    def fetch(name: str) -> Path:
        fetched.append(name)
        directory = tmp_path / f"fetched{len(fetched)}"
        (directory / "deep").mkdir(parents=True)
        [edit] = [edit for edit in EDITS if version in edit.kubelets and name.startswith(edit.module)]
        (directory / "deep/code.go").write_text(f"a {edit.old} b")
        (directory / "deep").chmod(0o555)
        return directory

    lay_out(Version.parse(version), source, module, fetch)

    text = (module / "go.mod").read_text()
    replaces = dict(re.findall(r"^\t(\S+) => (.*)$", text, re.MULTILINE))
    required = set(re.findall(r"^\t(\S+) v\S+$", text, re.MULTILINE)) - {"k8s.io/kubernetes"}
    assert required == set(replaces) > set(dependencies(Version.parse(version)))
    own = {target for target in replaces.values() if target.startswith("./")}
    assert all((module / target / "go.mod").is_file() for target in own)
    for edit in EDITS:
        if version in edit.kubelets:
            assert (module / replaces[edit.module] / "deep/code.go").read_text() == f"a {edit.new} b"


def test_an_edit_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kubernetes/staging/src/k8s.io").mkdir(parents=True)
    (tmp_path / "module").mkdir()
    (tmp_path / "other").mkdir()
    with pytest.raises(LabError, match="does not occur"):
        lay_out(
            Version.parse("1.12.10"), tmp_path / "kubernetes", tmp_path / "module", lambda _name: tmp_path / "other"
        )


def test_versions_that_are_not_recorded_are_refused_with_those_that_are() -> None:
    with pytest.raises(LabError, match=r"take 1\.7\.0, 1\.9\.11, 1\.12\.10, 1\.13\.12"):
        dependencies(Version.parse("1.12.4"))
