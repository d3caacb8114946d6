"""The commands of the pages that people follow: each is run by a test, or the page says why it is not.

A comment right before a block of commands says so: `<!-- run: helm -->` or `<!-- not run: why -->`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/install.md", "docs/upgrade-and-uninstall.md", "docs/kubeadm.md", "docs/operations.md")
_BLOCK = re.compile(r"^(?P<before>[^\n]*)\n *```console\n(?P<lines>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r" *<!-- (?P<kind>run|not run): (?P<said>.+) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of commands.

    Attributes:
        page: the page that it is on.
        tag: the name by which a test runs it; empty if none does.
        why_not: why no test runs it; empty if one does.
        commands: its commands, without prompts.
    """

    page: str
    tag: str
    why_not: str
    commands: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    """Return the blocks of commands on a page, in their order."""
    found = []
    for match in _BLOCK.finditer((CHECKOUT / page).read_text(encoding="utf-8")):
        mark = _MARK.fullmatch(match["before"])
        tag, why_not = "", ""
        if mark is not None:
            tag, why_not = (mark["said"], "") if mark["kind"] == "run" else ("", mark["said"])
        typed = [line.strip() for line in match["lines"].splitlines()]
        commands = tuple(re.sub(r" +# .*$", "", line[2:]) for line in typed if line.startswith(("$ ", "# ")))
        found.append(Block(page, tag, why_not, commands))
    return found


def commands(tag: str) -> list[str]:
    """Return the commands of all blocks with a tag, in the order of the pages; the same command once."""
    return list(
        dict.fromkeys(c for page in PAGES for block in blocks(page) if block.tag == tag for c in block.commands)
    )
