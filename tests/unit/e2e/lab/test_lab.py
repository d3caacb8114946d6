"""Labs are found by their files, whoever made them, and whoever removes them meanwhile."""

import json
from pathlib import Path

import pytest

from e2e.lab import Lab, LabError, paths


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "state_root", lambda: tmp_path)
    return tmp_path


def written(root: Path, **spec: object) -> None:
    (root / str(spec["name"])).mkdir()
    (root / str(spec["name"]) / "lab.json").write_text(json.dumps(spec))


def test_a_lab_of_an_older_or_newer_version_of_this_program_is_found(root: Path) -> None:
    written(root, name="older", nodes=1)
    written(root, name="newer", nodes=2, whatever="comes")
    assert [(lab.name, lab.spec.nodes) for lab in Lab.list()] == [("newer", 2), ("older", 1)]
    assert Lab.load("newer").spec.runtime == "containerd"


def test_a_lab_that_comes_or_goes_is_not_listed(root: Path) -> None:
    written(root, name="stays")
    (root / "goes").mkdir()
    (root / "goes/lab.json").symlink_to(root / "gone")
    (root / "comes").mkdir()
    (root / "comes/lab.json").touch()
    assert [lab.name for lab in Lab.list()] == ["stays"]
    with pytest.raises(LabError, match="no lab called goes"):
        Lab.load("goes")
