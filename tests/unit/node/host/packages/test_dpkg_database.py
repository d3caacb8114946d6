"""Tests how the package list of dpkg is read."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.packages.dpkg_database import HELD, SELECTIONS, record_of


def test_of_several_architectures_the_installed_one_counts() -> None:
    """A package may be there for two architectures, and leave its configuration behind where it was removed."""
    stanzas = (
        "Package: kubelet\nStatus: deinstall ok config-files\nArchitecture: i386\nVersion: 1",
        "Package: kubelet\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 2",
        "Package: kubelet\nStatus: install ok half-configured\nArchitecture: arm64\nVersion: 3",
    )
    text = "\n\n".join(stanzas).encode()

    found = [record_of(text, "kubelet", architecture) for architecture in ("", "amd64", "arm64", "i386")]
    assert [each and (each.selection, each.version) for each in found] == [
        *[(HELD, "2")] * 2, ("install", "3"), None,
    ]  # fmt: skip
    assert record_of(text, "kube") is None


@given(st.binary(), st.sampled_from(["kubelet", ""]))
def test_whatever_the_list_of_packages_holds_it_is_read_or_has_no_such_package(text: bytes, name: str) -> None:
    for status in (text, b"Package: kubelet\n" + text, b"Package: kubelet\nStatus:" + text):
        with contextlib.suppress(StepFailed):
            found = record_of(status, name)
            assert found is None or found.selection in SELECTIONS


@pytest.mark.parametrize("status", ["", "hold", "hold ok", "held ok installed", "hold\vok installed", "a b c d"])
def test_a_status_that_is_not_dpkgs_is_an_error(status: str) -> None:
    with pytest.raises(StepFailed, match="cannot read dpkg's record of kubelet: its Status is"):
        record_of(f"Package: kubelet\nStatus: {status}\nVersion: 1\n".encode(), "kubelet")
