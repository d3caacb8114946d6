"""Tests the checksums of the kubelet's state files."""

import json
from typing import Any

import pytest

from nodeupgrade.kubelet.state_files.checksums import cpu_formats, text_checksum
from nodeupgrade.kubelet.state_files.fields import fields
from nodeupgrade.kubelethash import fnv1a


@pytest.mark.parametrize(
    ("checksum", "entries", "found"),
    [
        (1353318690, None, {2}),
        (3242152201, None, {1}),
        (0, None, {1, 2}),
        (1353318691, None, set()),
        (1353318690, {}, {2}),
        (1353318690, {"u": 1}, set()),
        (1353318690, [], set()),
    ],
)
def test_the_format_of_pinned_cpus_shows_in_the_checksum(checksum: int, entries: Any, found: set[int]) -> None:
    """The two checksums without pods are known from countless nodes."""
    given = {"policyName": "none", "defaultCpuSet": "", "checksum": checksum}
    state = {**given, **({} if entries is None else {"entries": entries})}

    assert cpu_formats(fields(json.dumps(state).encode())) == frozenset(found)


def test_fields_that_are_not_known_leave_it_open() -> None:
    assert cpu_formats(fields(b'{"policyName":"none","podEntries":{},"checksum":1}')) is None


def test_half_a_character_is_read_as_go_reads_it() -> None:
    assert text_checksum("\ud800") == fnv1a("(string)\ufffd".encode())
