"""Tests the program of the lease keeper."""

from pathlib import Path

import pytest

from nodeupgrade.node.lease_keeper import process
from tests.builders.lease_server import NODE


def test_nobody_there_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ["--kubeconfig", str(tmp_path / "none"), "--environment", str(tmp_path / "none.json")]
    arguments = ["lease_keeper", *files, "--node", NODE, "--seconds", "1"]
    monkeypatch.setattr("sys.argv", arguments)

    assert process.main() == 0
