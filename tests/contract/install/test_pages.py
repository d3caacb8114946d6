"""Every command of the pages that people follow is run, or the page says why it is not."""

import pytest

from e2e import pages, test_install


@pytest.mark.parametrize("page", pages.PAGES)
def test_each_block_of_commands_is_run_or_says_why_not(page: str) -> None:
    assert [block.commands for block in pages.blocks(page) if not (block.tag or block.why_not)] == []
    assert all(block.commands for block in pages.blocks(page) if block.tag)


def test_what_is_said_to_be_run_is_run() -> None:
    tags = {block.tag for page in pages.PAGES for block in pages.blocks(page)} - {""}
    assert tags == set(test_install.RUN)
    source = (pages.CHECKOUT / "e2e/test_install.py").read_text(encoding="utf-8")
    assert {tag for tag in tags if f'follow("{tag}"' not in source} == set()
