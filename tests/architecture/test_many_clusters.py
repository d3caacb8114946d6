"""What docs/many-clusters.md says of 60,000 nodes follows from what was measured."""

import json
import re
from pathlib import Path

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.waves import SLOTS

DOCS = Path(__file__).parents[2] / "docs"
NODES, MORE = 3530, 500


def rows(name: str) -> list[Json]:
    return [json.loads(line) for line in (DOCS / "measured" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_durations_and_the_load_are_those_of_the_measured_rates() -> None:
    page = (DOCS / "many-clusters.md").read_text(encoding="utf-8")
    seconds = max(sum(row["seconds"].values()) for row in rows("node-seconds")[1:] if row["version"] == "since")
    (rate,) = (row for row in rows("rollouts")[1:] if row.get("in_flight") == SLOTS)
    (counted,) = (row for row in rows("rollouts")[1:] if "writes of 120 nodes" in row.get("note", ""))
    used = rate["of_ideal_after_first_round"]
    cluster = NODES * seconds / SLOTS / used
    per_second = SLOTS * used / seconds
    processors = per_second * rate["cpu_seconds_per_node_after_first_round"]
    for said in (
        f"a node in {seconds:.0f} s",
        f"used to {used:.0%}".replace("%", " %"),
        f"| one after the other | {17 * cluster / 3600:.1f} h |",
        f"| 1, then 4, then 12 | {3 * cluster / 3600:.1f} h |",
        f"| all | {cluster / 60:.0f} min |",
        f"uses {processors:.2f} of a processor and writes {per_second * counted['writes_per_node']:.0f} times a second",
        f"With {MORE} slots it would need {processors * MORE / SLOTS:.1f} of",
        f"{NODES // 10} nodes",
    ):
        assert said in page, said
    assert len(re.findall(r"\S+", page)) <= 500
