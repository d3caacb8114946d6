"""What the pages show is what the commands print: each such block is a part of the golden file that it names."""

import re

import pytest

from e2e import pages
from e2e.pages import Block, Kind
from nodeupgrade.cli.main import main
from tests.golden.cli.cluster import HERE

PLACES = (HERE, pages.CHECKOUT / "e2e/golden")
"""Where golden files lie; those of the end-to-end tests hold what one command printed, without the command."""
SHOWN = [block for page in pages.pages() for block in pages.blocks(page) if block.kind is Kind.GOLDEN]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page}:{block.line}")
def test_what_is_shown_is_what_is_printed(block: Block) -> None:
    (file,) = (place / block.said for place in PLACES if (place / block.said).is_file())
    golden = file.read_text(encoding="utf-8")
    if file.parent == HERE:
        assert block.text in transcripts(golden)
    else:
        assert block.text.partition("\n")[2].strip() == golden.strip()


def transcripts(golden: str) -> list[str]:
    """Split a golden file into commands with what they print, without what a test noted below them."""
    commands = re.split(r"^(?=\$ nodeupgrade )", golden, flags=re.MULTILINE)
    return [re.sub(r"\n# \w.*", "", command, flags=re.DOTALL).rstrip() + "\n" for command in commands]


def test_every_command_is_described() -> None:
    assert SHOWN
    document = (pages.CHECKOUT / "docs/generated/cli.md").read_text(encoding="utf-8")
    assert [name for name in main.commands if f"`{name}" not in document] == []
