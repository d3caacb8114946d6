"""Tests the process of the operator around its event loop."""

import gc
from collections.abc import Iterator
from typing import Any, cast

import pytest

from nodeupgrade.controlplane import serve


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Begin with CPython's default; tests set another."""
    before = gc.get_threshold()
    gc.set_threshold(700)
    yield
    gc.set_threshold(*before)


def test_cycles_are_looked_for_seldom_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = list[int]()

    async def run(*_: object) -> bool:
        thresholds.append(gc.get_threshold()[0])
        return True

    monkeypatch.setattr(serve, "run", run)

    assert serve.serve(cast("Any", None)) == 0
    assert thresholds == [serve.NEW_OBJECTS]
