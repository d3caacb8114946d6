"""Tests what the documentation says about itself and about the code."""

import json
import re
from pathlib import Path

import pytest
import yaml

from nodeupgrade.api.upgrade.windows import HORIZON
from nodeupgrade.kubelethash import era_of, hash_container

HASH_ERAS = (Path(__file__).parents[2] / "docs" / "hash-eras.md").read_text(encoding="utf-8")


def test_the_example_hashes_are_right() -> None:
    block = re.search(r"```yaml\n(.*?)```", HASH_ERAS, re.DOTALL)
    assert block
    stated = dict(re.findall(r"(1\.\d+) stores `([0-9a-f]+)`", HASH_ERAS))
    assert len(stated) == 4
    assert stated == {kubelet: hash_container(yaml.safe_load(block[1]), kubelet) for kubelet in stated}


def test_the_table_of_eras_is_the_one_in_the_code() -> None:
    rows = re.findall(r"^\| ([A-D]) \| (1\.\d+)(?: to (1\.\d+))? \|", HASH_ERAS, re.MULTILINE)
    assert [era for era, _, _ in rows] == ["A", "B", "C", "D"]
    for era, first, last in rows:
        assert era_of(first) == era_of(last or first) == era


def test_readme_quotes_the_swaps_drawn_at_random_as_they_were() -> None:
    rows = [json.loads(line) for line in (ROOT / "docs/measured/soak.jsonl").read_text(encoding="utf-8").splitlines()]
    swaps = [row for row in rows[1:] if not row.get("naive") and not row.get("reboots")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"of ([\d,]+) containers in ([\d,]+) \[swaps drawn at random\]\S+ (\w+) was lost", readme)
    assert said
    assert [text.replace(",", "") for text in said.groups()] == [
        str(sum(swap["containers"] for swap in swaps)),
        str(len(swaps)),
        {0: "none", 1: "one"}[sum(len(swap.get("disturbed", ())) for swap in swaps)],
    ]


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAIR = re.compile(r"(1\.\d+)(?:\.\d+)? (→|↔) (1\.\d+)(?:\.\d+)?")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    for file, anchor in links:
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def pairs(text: str) -> set[tuple[str, str]]:
    """Return all pairs of minors in a text; a double arrow is two."""
    found = {(first, last) for first, _, last in PAIR.findall(text)}
    return found | {(last, first) for first, arrow, last in PAIR.findall(text) if arrow == "↔"}


def test_the_pairs_that_were_tried_are_those_that_are_on_record() -> None:
    lines = [
        json.loads(line)
        for name in ("version-pairs", "clients")
        for line in (ROOT / "docs" / "measured" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    ]
    measured = [
        f"{row['from']} → {row['to']}"
        for row in lines
        if row.get("ended", "Succeeded") == "Succeeded"
        and row["from"] != row["to"]
        and row.get("runtime", "containerd").startswith(("containerd", "Docker"))
    ]
    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    claimed = next(line for line in page.splitlines() if line.startswith("**Versions** "))
    assert pairs(claimed) == pairs("\n".join(measured))


def test_a_node_takes_as_long_on_every_page_as_it_was_measured() -> None:
    """The longest of today's runs with the default settle period."""
    rows = [json.loads(line) for line in (ROOT / "docs/measured/node-seconds.jsonl").read_text("utf-8").splitlines()]
    longest = max(sum(row["seconds"].values()) for row in rows if row.get("version") == "since")
    link = "measured/README.md#where-the-seconds-of-a-node-go"
    told = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    found = {
        name: set(re.findall(r"\b(\d+) s\b", line))
        for name, text in told.items()
        for line in text.splitlines()
        if link in line
    }
    assert {name for name, seconds in found.items() if f"{longest:.0f}" in seconds} >= {
        "README.md",
        "docs/many-clusters.md",
        "docs/rollouts.md",
    }
    assert not [name for name, text in told.items() if re.search(r"about (?:\d+) s (?:a node|for each round)", text)]


def test_when_a_window_never_opens() -> None:
    assert HORIZON.days // 365 == 10
    assert "leave no moment in the next ten years" in (ROOT / "docs/generated/reference.md").read_text(encoding="utf-8")


def test_the_glossary_explains_each_term_once() -> None:
    terms = re.findall(r"^\| ([^|]+) \| ", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    explained = [term for row in terms for term in row.split(", ") if term != "term"]

    assert len(explained) > 50
    assert [term for term in set(explained) if explained.count(term) > 1] == []
