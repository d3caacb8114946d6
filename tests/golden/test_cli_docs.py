"""docs/cli.md shows what the commands print, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodeupgrade.cli.main import main
from tests.golden.cli.cluster import HERE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```console\n(\$ nodeupgrade .*?)\n```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("transcript", SHOWN, ids=lambda transcript: transcript.splitlines()[0])
def test_what_is_shown_is_what_is_printed(transcript: str) -> None:
    assert any(transcript in golden.read_text(encoding="utf-8") for golden in HERE.glob("*.txt"))


def test_every_command_is_described() -> None:
    assert SHOWN
    assert [name for name in main.commands if f"`{name}" not in DOCUMENT] == []
