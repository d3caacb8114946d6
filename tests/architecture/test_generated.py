"""Generated files are as their generators would write them, and a generator notices when they are not."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools import (
    generate_chart,
    generate_checks,
    generate_crds,
    generate_dashboard,
    generate_history,
    generate_measured,
    generate_metrics,
    generate_rbac,
    generated,
)

GENERATORS = (
    generate_crds, generate_checks, generate_history, generate_measured, generate_metrics, generate_dashboard,
    generate_rbac, generate_chart,
)  # fmt: skip


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda module: module.__name__)
def test_files_are_up_to_date(generator: ModuleType) -> None:
    there = getattr(generator, "there", tuple)
    assert generated.outdated(generator.wanted(), there()) == [], f"run python -m {generator.__name__}"


def test_generators_are_all_known() -> None:
    names = {path.stem for path in Path(generated.__file__).parent.glob("generate_*.py")} - {"generate_protobuf"}
    assert names == {module.__name__.rpartition(".")[2] for module in GENERATORS}


def test_a_check_changes_nothing_and_names_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "CHECKOUT", tmp_path)
    stale, missing, unknown = (tmp_path / name for name in ("stale", "folder/missing", "unknown"))
    stale.write_text("old")
    unknown.write_text("")
    wanted = {stale: "new", missing: "new"}

    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    with pytest.raises(SystemExit, match=r"^outdated: folder/missing, stale, unknown; run "):
        generated.main("tools.it", "", lambda: wanted, lambda: [stale, unknown])
    assert stale.read_text() == "old"
    assert not missing.exists()

    monkeypatch.setattr(sys, "argv", ["tool"])
    generated.main("tools.it", "", lambda: wanted)
    assert (stale.read_text(), missing.read_text()) == ("new", "new")
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    generated.main("tools.it", "", lambda: wanted)


def test_a_page_without_the_table_is_not_written() -> None:
    assert generated.filled("a\n<!-- t -->\nold\n<!-- end of t -->\nb", "t", "new\n") == (
        "a\n<!-- t -->\nnew\n<!-- end of t -->\nb"
    )
    with pytest.raises(ValueError, match="no table 't'"):
        generated.filled("a\nb", "t", "new\n")
