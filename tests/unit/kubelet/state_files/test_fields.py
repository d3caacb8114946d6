"""Tests how the fields of the kubelet's state files are read."""

import pytest

from nodeupgrade.kubelet.state_files.fields import fields, read_fields


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_said_plainly(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_fields(data)
    assert fields(data) == {}
