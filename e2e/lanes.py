"""Two runs of the tests on nodes share the modules: each takes the next one that the other has not taken.

One goes through them from the first to the last, the other from the last to the first, so that both end at about the
same time, whatever takes how long on this machine. Of the modules that share a node, the second run meets most.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

BACKWARDS = "--from-the-last"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--taken", type=Path, help="directory of the modules that one of the runs has taken")
    parser.addoption(BACKWARDS, action="store_true", help="begin with the last module")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of the modules that this run takes, as pytest does, which knows of no others."""
    taken: Path | None = session.config.getoption("--taken")
    if taken is None or session.config.option.collectonly or session.testsfailed:
        return None
    modules = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    if session.config.getoption(BACKWARDS):
        modules.reverse()
    for item, following in _with_next(ours(modules, taken)):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def ours(modules: Sequence[Sequence[pytest.Item]], taken: Path) -> Iterator[pytest.Item]:
    """Yield the tests of each module that nobody else has taken; it is taken before its first test is asked for."""
    for items in modules:
        try:
            (taken / items[0].path.name).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield from items


def _with_next(items: Iterator[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test with the next one, so that pytest knows which fixtures it may end."""
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        yield item, following
        item = following
