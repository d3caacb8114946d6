"""Fixtures for tests of file access."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that plays the node's root; beside it lies a file that must not be reached."""
    root = tmp_path / "host"
    (root / "etc").mkdir(parents=True)
    (tmp_path / "secret").write_text("outside")
    return root
