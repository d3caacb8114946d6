from itertools import count
from pathlib import Path

import pytest

from tests.scenario.agent import guarded
from tests.scenario.agent.harness import World, make_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(tmp_path, monkeypatch)


@pytest.fixture
def make_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guarded.Make:
    numbers = count()
    return lambda: guarded.make_guarded(tmp_path / str(next(numbers)), monkeypatch)
