"""The tables of the documentation are the code's.

``UPDATE_GOLDEN=1 pytest tests/contract/gitops`` writes them anew.
"""

import os
import re
from pathlib import Path

import pytest
import yaml

from nodeupgrade.api import upgrade
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cli.inputs.lint import lint
from nodeupgrade.cli.main import main
from tests.contract.gitops import reference
from tests.contract.gitops.examples import WRITTEN, upgrades
from tests.contract.gitops.recorded import conditions, load
from tests.contract.kube.conftest import ROOT

STANDING = ("Reconciling", "Stalled", "Ready", "Succeeded")

PAGES = {
    Path(name).name: ROOT / "docs" / f"{name}.md" for name in ("generated/reference", "rollouts", "gitops", "roll-back")
}


@pytest.mark.parametrize(
    ("page", "table"),
    [("reference", "fields"), ("reference", "reasons"), ("reference", "verdicts")],
)
def test_table_is_in_step(page: str, table: str) -> None:
    path = PAGES[page]
    written = {"fields": reference.fields, "reasons": reference.reasons, "verdicts": reference.verdicts}[table]()
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {table} -->\n", f"<!-- end of {table} -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    told = f"{before}{begin}{written}{end}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")


def test_how_a_rollout_stands_is_told_as_it_is() -> None:
    rows = {cells[0].strip("`"): cells[1:] for cells in table("How a rollout stands")}
    assert set(rows) <= set(Reason)
    for name, body in load().items():
        if not (found := {c["type"]: c for c in conditions(body)}):
            continue
        assert len({(found[kind]["reason"], found[kind]["message"]) for kind in STANDING}) == 1, name
        reason = found["Ready"]["reason"]
        if reason in {failure["reason"] for failure in body["status"].get("failures", [])} - set(rows):
            continue  # the reason that all nodes share which did not succeed
        holding, phases, _ = rows[reason]
        assert [kind for kind in ("Reconciling", "Stalled", "Ready") if found[kind]["status"] == "True"] == [holding], (
            name
        )
        assert body["status"]["phase"] in phases.split(", "), name


def test_other_conditions_have_no_other_reasons() -> None:
    rows = {cells[0].strip("`"): cells[1:] for cells in table("Other conditions")}
    named = {kind: [set(re.findall(r"`(\w+)`", cell)) for cell in cells] for kind, cells in rows.items()}
    named["Planned"][1] |= named["Accepted"][1]
    for name, body in load().items():
        for condition in conditions(body):
            if condition["type"] not in STANDING:
                reasons = named[condition["type"]][("True", "False", "Unknown").index(condition["status"])]
                assert condition["reason"] in reasons, (name, condition)
    assert set.union(*(cell for cells in named.values() for cell in cells)) - {"Accepted"} <= set(Reason)


def test_annotations_are_documented() -> None:
    ours = {value for name, value in vars(upgrade).items() if name.endswith("_ANNOTATION")}
    assert {name for name in ours if f"`{name}" not in PAGES["reference"].read_text(encoding="utf-8")} == set()


@pytest.mark.parametrize(
    "path", [PAGES["rollouts"], PAGES["roll-back"], ROOT / "README.md"], ids=lambda path: path.name
)
def test_what_people_copy_is_valid(path: Path) -> None:
    """Whole objects, and parts of a spec in any example's place."""
    blocks = re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        written = yaml.safe_load(block.replace("…64 hex digits…", "0" * 64))
        whole = next(iter(upgrades("argocd").values()))
        body = written if "kind" in written else {**whole, "spec": {**whole["spec"], **written}}
        assert lint(body, now=WRITTEN) == (), block


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    named = re.findall(
        r"nodeupgrade (?:-\S+ )*([a-z][a-z-]*)(?: [A-Za-z-]|`)", commands(PAGES[page].read_text(encoding="utf-8"))
    )
    assert {name for name in named if name not in main.commands} == set()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = PAGES[page]
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


def commands(text: str) -> str:
    """Return what is meant to be typed and begins with our program, as a plugin or by itself."""
    return "\n".join(re.findall(r"(?:^\$ |`)((?:kubectl )?nodeupgrade [^`\n]*`?)", text, re.MULTILINE))


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the reference."""
    section = PAGES["reference"].read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("seen", sorted((ROOT / "e2e/golden").glob("kubectl-get-*.txt")), ids=lambda path: path.stem)
def test_what_kubectl_shows_is_what_was_seen_on_real_nodes(seen: Path) -> None:
    assert f"$ kubectl get nu,nut -o wide\n{seen.read_text(encoding='utf-8')}```" in PAGES["rollouts"].read_text()
