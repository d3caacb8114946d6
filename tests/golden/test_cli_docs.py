"""docs/cli.md shows what the commands print, and nothing else: each block is a transcript of the file that it names."""

import re
from pathlib import Path

import pytest

from nodeupgrade.cli.main import main
from tests.golden.cli.cluster import HERE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"(?:<!-- golden: (\S+) -->\n)?```console\n(\$ nodeupgrade .*?\n)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize(("golden", "shown"), SHOWN, ids=[shown.splitlines()[0] for _, shown in SHOWN])
def test_what_is_shown_is_what_is_printed(golden: str, shown: str) -> None:
    assert golden, "a comment before the block must name the golden file: <!-- golden: FILE -->"
    assert shown in transcripts((HERE / golden).read_text(encoding="utf-8"))


def transcripts(golden: str) -> list[str]:
    """Split a golden file into commands with what they print, without what a test noted below them."""
    commands = re.split(r"^(?=\$ nodeupgrade )", golden, flags=re.MULTILINE)
    return [re.sub(r"\n# \w.*", "", command, flags=re.DOTALL).rstrip() + "\n" for command in commands]


def test_every_command_is_described() -> None:
    assert SHOWN
    assert [name for name in main.commands if f"`{name}" not in DOCUMENT] == []
