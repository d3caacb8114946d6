"""Tests which version a kubeadm cluster starts with."""

import pytest

from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm


@pytest.mark.parametrize(("programs", "first"), [("1.33.13", "1.33.12"), ("1.34.0", "1.34.0")])
def test_a_cluster_starts_a_patch_earlier_if_there_is_one(programs: str, first: str) -> None:
    assert str(kubeadm.first_release(Version.parse(programs))) == first
