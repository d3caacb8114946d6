"""The commands of README.md and docs/: each is run by a test, or the page says why it is not.

A comment right before a block says so:

    <!-- run: helm -->          a test runs its commands, by this tag
    <!-- shown: web-0 -->       a test runs them, by this tag, and compares what they print
    <!-- golden: plan.txt -->   it is what a test compares with what the commands print
    <!-- not run: why -->       no test runs it

and `<!-- file: first-node.yaml -->` before a block that is no commands names the file that commands elsewhere read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
COMMANDS = "console"
"""The language of every block of commands: `$ ` before what anybody types, `# ` before what root types."""
OTHERS = ("ini", "json", "python", "text", "yaml")
_MARK = re.compile(r"<!-- (?P<kind>run|shown|golden|not run|file): (?P<said>.+) -->")
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<language>.*)")


class Kind(StrEnum):
    """What a page says about a block."""

    RUN = "run"
    SHOWN = "shown"
    GOLDEN = "golden"
    NOT_RUN = "not run"
    FILE = "file"
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    page: str  # the page that it is on
    line: int  # the number of its first line, that of the fence
    language: str  # what the fence says; empty if nothing
    kind: Kind  # what the page says about it
    said: str  # the tag, the golden file, the reason or the name of the file; empty if nothing
    text: str  # what is in it, without the indentation of the fence

    @property
    def commands(self) -> tuple[str, ...]:
        """Its commands, without prompts and comments."""
        typed = (line for line in self.text.splitlines() if line.startswith(("$ ", "# ")))
        return tuple(re.sub(r" +# .*$", "", line[2:]) for line in typed)


def pages() -> list[str]:
    """Return the names of all pages."""
    return ["README.md", *sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in their order."""
    return list(parsed(page, (CHECKOUT / page).read_text(encoding="utf-8")))


def parsed(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a text.

    Raises:
        ValueError: a fence is not closed.
    """
    before, lines = "", iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if (fence := _FENCE.fullmatch(line.strip())) is None:
            before = line
            continue
        indentation, inside = len(line) - len(line.lstrip()), list[str]()
        for _, inner in lines:
            if inner.strip() == fence["fence"]:
                break
            inside.append(inner[indentation:])
        else:
            raise ValueError(f"{page}:{number}: the block has no end")
        mark = _MARK.fullmatch(before.strip())
        kind, said = (Kind(mark["kind"]), mark["said"]) if mark else (Kind.NOTHING, "")
        yield Block(page, number, fence["language"], kind, said, "".join(f"{each}\n" for each in inside))
        before = ""


def complaints(page: str, text: str) -> Iterator[str]:
    """Yield what is wrong with the blocks of a text: everything by which a command could pass unnoticed."""
    found = list(parsed(page, text))
    for block in found:
        yield from (f"{page}:{block.line}: {wrong}" for wrong in _about(block))
    marks = sum(_MARK.fullmatch(line.strip()) is not None for line in _outside(text, found))
    if marks != sum(block.kind is not Kind.NOTHING for block in found):
        yield f"{page}: a comment such as <!-- run: … --> is not right before a block"
    for line in _outside(text, found):
        if re.match(r"\s*(>\s*)?\$ \w", line):
            yield f"{page}: a command outside a block: {line.strip()}"


def _about(block: Block) -> Iterator[str]:
    if block.language == COMMANDS:
        if block.kind in {Kind.NOTHING, Kind.FILE}:
            yield "its commands are neither run nor said not to be"
        if not block.commands:
            yield "a block of commands without a command"
        if block.kind is Kind.RUN and any(_is_output(line) for line in block.text.splitlines()):
            yield "nobody compares the output in it"
    elif block.language not in OTHERS:
        yield f"what is {block.language or 'a block without a language'}? commands are {COMMANDS!r}"
    else:
        if block.kind not in {Kind.NOTHING, Kind.FILE}:
            yield f"no commands, but {block.kind}"
        if re.search(r"^\$ ", block.text, re.MULTILINE):
            yield f"commands in a block of {block.language}"


def _is_output(line: str) -> bool:
    return bool(line) and not line.startswith(("$ ", "# "))


def _outside(text: str, found: list[Block]) -> list[str]:
    lines = text.splitlines()
    for block in reversed(found):
        del lines[block.line - 1 : block.line + len(block.text.splitlines()) + 1]
    return lines


def tags(*kinds: Kind) -> set[str]:
    """Return the tags of all blocks of these kinds."""
    return {block.said for page in pages() for block in blocks(page) if block.kind in kinds}


def transcripts(tag: str) -> list[tuple[str, str]]:
    """Return the commands of all blocks with a tag that show what they print, with that."""
    shown = (block for page in pages() for block in blocks(page) if (block.kind, block.said) == (Kind.SHOWN, tag))
    return [pair for block in shown for pair in _split(block.text)]


def _split(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^[$] ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def commands(tag: str) -> list[str]:
    """Return the commands of all blocks with a tag, in the order of the pages; the same command once."""
    every = (block for page in pages() for block in blocks(page) if (block.kind, block.said) == (Kind.RUN, tag))
    return list(dict.fromkeys(command for block in every for command in block.commands))


def file(name: str) -> str:
    """Return the content of a file that a page shows.

    Raises:
        KeyError: no page shows it, or several do.
    """
    found = [b.text for page in pages() for b in blocks(page) if (b.kind, b.said) == (Kind.FILE, name)]
    if len(found) != 1:
        raise KeyError(f"{name} is on {len(found)} pages")
    return found[0]
