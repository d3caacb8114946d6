"""The figures of docs/hash-eras.md are computed, not remembered."""

import re
from pathlib import Path

import yaml

from nodeupgrade.kubelethash import era_of, hash_container

PAGE = (Path(__file__).parents[3] / "docs" / "hash-eras.md").read_text(encoding="utf-8")


def test_the_example_hashes_are_right() -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert block
    stated = dict(re.findall(r"(1\.\d+) stores `([0-9a-f]+)`", PAGE))
    assert len(stated) == 4
    assert stated == {kubelet: hash_container(yaml.safe_load(block[1]), kubelet) for kubelet in stated}


def test_the_table_of_eras_is_the_one_in_the_code() -> None:
    rows = re.findall(r"^\| ([A-D]) \| (1\.\d+)(?: to (1\.\d+))? \|", PAGE, re.MULTILINE)
    assert [era for era, _, _ in rows] == ["A", "B", "C", "D"]
    for era, first, last in rows:
        assert era_of(first) == era_of(last or first) == era
