"""Tests which network namespaces belong to a lab."""

from pathlib import Path

import pytest

from e2e.lab import naming
from e2e.lab.host import network


def test_a_lab_never_takes_the_namespaces_of_one_whose_name_begins_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lab in ("a", "ab", "a-b"):
        (tmp_path / naming.control_plane_namespace(lab)).touch()
        (tmp_path / naming.node_namespace(lab, "node1")).touch()
    monkeypatch.setattr(network, "namespace_file", lambda name: tmp_path / name)
    assert network.namespaces("a") == ["nodeupgrade-lab.a.node1", "nodeupgrade-lab.a"]
    assert network.namespaces("c") == []
