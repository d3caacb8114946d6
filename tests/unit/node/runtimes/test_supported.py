"""Tests the list of supported runtimes."""

from nodeupgrade.node.runtimes.supported import RUNTIMES


def test_cri_dockerd_has_no_adapter_and_so_is_refused_by_name() -> None:
    assert "cri-dockerd" not in {adapter.kind.name for adapter in RUNTIMES}
