"""Runs of the tests on nodes share the modules: each takes the next one that no other has taken.

All go through them from the first to the last but one, which goes from the last to the first: so they end at about the
same time, whatever takes how long on this machine, and of the modules that share a node, one run meets most.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

LANE = "--lane"
LANES = ("first", "second", "last")
"""Names of the runs; with the last begins the one that is called so."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--taken", type=Path, help="directory of the modules that one of the runs has taken")
    parser.addoption(LANE, choices=LANES, default=LANES[0], help="which of the runs this is")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of the modules that this run takes, as pytest does, which knows of no others."""
    taken: Path | None = session.config.getoption("--taken")
    if taken is None or session.config.option.collectonly or session.testsfailed:
        return None
    modules = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    if session.config.getoption(LANE) == LANES[-1]:
        modules.reverse()
    for items in modules:
        if _take(taken / items[0].nodeid.partition("::")[0].replace("/", "+")):
            elsewhere = next((others[0] for others in modules if others is not items), None)
            _run(session, items, elsewhere)
    return True


def _take(module: Path) -> bool:
    """Take a module, unless somebody has; never before all others that this run has taken are done."""
    try:
        module.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _run(session: pytest.Session, items: Sequence[pytest.Item], elsewhere: pytest.Item | None) -> None:
    """Run the tests of a module; after the last one pytest ends what belongs to the module, and nothing else.

    Args:
        session: what runs them.
        items: the tests.
        elsewhere: any test of another module.
    """
    for item, following in zip(items, [*items[1:], elsewhere], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
