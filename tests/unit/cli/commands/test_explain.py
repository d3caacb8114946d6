"""Tests that the search for cycles, which takes most of the time in a large cluster, is off while pods are read."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import ReviewingKube, UnavailableError
from tests.doubles.kube import InMemoryKube


@pytest.mark.parametrize("fails", [False, True])
def test_no_cycles_are_searched_for_while_a_cluster_is_read(*, fails: bool) -> None:
    seen: list[bool] = []

    @asynccontextmanager
    async def connect(
        _config: Path | None, _context: str | None, _seconds: float, _user: str | None
    ) -> AsyncIterator[ReviewingKube]:
        seen.append(gc.isenabled())
        if fails:
            raise UnavailableError("no answer")
        yield InMemoryKube()

    result = CliRunner().invoke(main, ["explain", "--to", "1.34"], obj=World(connect=connect))

    assert (result.exit_code, seen) == (3 if fails else 0, [False])
    assert gc.isenabled()
