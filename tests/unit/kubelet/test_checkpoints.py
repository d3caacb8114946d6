"""State files as kubelets write them: what they say, and whether their checksum is theirs."""

import json
from typing import Any

import pytest

from nodeupgrade.kubelet.state_files.checksums import cpu_formats, text_checksum
from nodeupgrade.kubelet.state_files.device_checkpoint import DeviceCheckpoint, read_devices
from nodeupgrade.kubelet.state_files.fields import fields, read_fields
from nodeupgrade.kubelethash import fnv1a
from tests.unit.domain.node.checks.admission.admitted import checkpoint

ENTRY = {"PodUID": "u", "ContainerName": "app", "ResourceName": "example.com/gpu", "AllocResp": "CgM="}
GPUS = {"RegisteredDevices": {"example.com/gpu": ["a", "b"]}}


@pytest.mark.parametrize("ids", [{"-1": ["a"], "0": ["b"]}, ["a", "b"]], ids=["by NUMA node", "up to 1.19"])
def test_devices_are_read_from_either_format(ids: Any) -> None:
    assert read_devices(checkpoint({"PodDeviceEntries": [{**ENTRY, "DeviceIDs": ids}], **GPUS})) == DeviceCheckpoint(
        resources=frozenset({"example.com/gpu"}),
        allocated={"example.com/gpu": 2},
        holdings=frozenset({("u", "app", "example.com/gpu")}),
        flat=isinstance(ids, list),
    )


def test_a_checkpoint_that_a_kubelet_would_not_accept_says_nothing() -> None:
    sound = checkpoint({"PodDeviceEntries": None, **GPUS})

    assert read_devices(sound) is not None
    for damaged in (None, b"", b"[]", b"{}", b'{"Data":[]}', sound[:-1], sound.replace(b'"a"', b'"c"')):
        assert read_devices(damaged) is None


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


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_said_plainly(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_fields(data)
    assert fields(data) == {}
