"""Fixtures for tests of the CRI adapters."""

from pathlib import Path

import pytest


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "runtime.sock"
