"""Every command of README.md and docs/ is run by a test, or the page says why it is not."""

import re
from pathlib import Path

import pytest

from e2e import pages
from e2e.pages import Kind

TESTS = ("e2e", "tests")
_RUNS = re.compile(r'\b(?:follow|commands|transcripts)\(\s*"([a-z0-9-]+)"')


@pytest.mark.parametrize("page", pages.pages())
def test_each_block_of_commands_is_run_or_says_why_not(page: str) -> None:
    text = (pages.CHECKOUT / page).read_text(encoding="utf-8")
    assert list(pages.complaints(page, text)) == []


def test_what_is_said_to_be_run_is_run() -> None:
    sources = (path for folder in TESTS for path in (pages.CHECKOUT / folder).rglob("*.py") if path != Path(__file__))
    run = {tag for path in sources for tag in _RUNS.findall(path.read_text(encoding="utf-8"))}
    assert pages.tags(Kind.RUN, Kind.SHOWN) == run


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```console\n$ ls\n```\n", "neither run nor said not to be"),
        ("<!-- run: x -->\n\n```console\n$ ls\n```\n", "neither run nor said not to be"),
        ("<!-- run: x -->\n\n```console\n$ ls\n```\n", "is not right before a block"),
        ("<!-- file: x -->\n```console\n$ ls\n```\n", "neither run nor said not to be"),
        ("1. list:\n   ```console\n   $ ls\n   ```\n", "neither run nor said not to be"),
        ("~~~console\n$ ls\n~~~\n", "neither run nor said not to be"),
        ("<!-- run: x -->\n```console\nls\n```\n", "without a command"),
        ("<!-- run: x -->\n```console\n$ ls\na b\n```\n", "nobody compares the output"),
        ("<!-- run: x -->\n<!-- not run: y -->\n```console\n$ ls\n```\n", "is not right before a block"),
        ("```sh\nls\n```\n", "what is sh?"),
        ("```\nls\n```\n", "a block without a language"),
        ("<!-- not run: why -->\n```yaml\na: b\n```\n", "no commands, but not run"),
        ("```yaml\n$ ls\n```\n", "commands in a block of yaml"),
        ("text\n\n    $ ls -l\n", "a command outside a block"),
    ],
)
def test_nothing_slips_through(text: str, complaint: str) -> None:
    assert any(complaint in each for each in pages.complaints("page.md", text))


def test_what_is_marked_passes() -> None:
    text = (
        "<!-- run: x -->\n```console\n$ ls  # all\n# ls\n```\n <!-- not run: why -->\n ```console\n $ ls\n x\n ```\n"
        "<!-- golden: x.txt -->\n```console\n$ ls\nx\n```\n"
        "<!-- file: x.yaml -->\n```yaml\na: b\n```\n```json\n{}\n```\n"
    )
    assert list(pages.complaints("page.md", text)) == []
    assert [(b.kind, b.said, b.commands) for b in pages.parsed("page.md", text)] == [
        (Kind.RUN, "x", ("ls", "ls")), (Kind.NOT_RUN, "why", ("ls",)), (Kind.GOLDEN, "x.txt", ("ls",)),
        (Kind.FILE, "x.yaml", ()), (Kind.NOTHING, "", ()),
    ]  # fmt: skip


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"page\.md:2: the block has no end"):
        list(pages.parsed("page.md", "a\n```console\n$ ls\n"))
