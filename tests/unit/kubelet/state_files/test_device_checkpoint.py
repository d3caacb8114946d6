"""Tests how the device manager's checkpoint is read."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nodeupgrade.kubelet.state_files.checksums import device_checksum
from nodeupgrade.kubelet.state_files.device_checkpoint import DeviceCheckpoint, read_devices, with_newcomers
from tests.builders.admitted import checkpoint

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
    "content",
    [
        {"PodDeviceEntries": None, "RegisteredDevices": {"\ud800": ["a"]}},
        {"PodDeviceEntries": [{**ENTRY, "ResourceName": "\ud800", "DeviceIDs": {"0": ["\ud800"]}}], **GPUS},
    ],
)
def test_half_a_character_is_no_error(content: Any) -> None:
    """Whoever writes beside the checkpoint may write it, and a rollback reads it while no kubelet runs."""
    assert read_devices(json.dumps({"Data": content, "Checksum": 1}).encode()) is None


@pytest.mark.parametrize(
    ("names", "content"),
    [
        ("1 01", lambda each: {"PodDeviceEntries": [{**ENTRY, "DeviceIDs": each}], **GPUS}),
        ("\ud800 \ufffd", lambda each: {"PodDeviceEntries": None, "RegisteredDevices": each}),
    ],
)
def test_of_names_that_go_reads_as_one_the_last_counts(names: str, content: Callable[[Any], Any]) -> None:
    first, last = names.split()

    assert read_devices(json.dumps({"Data": content({first: ["a"], last: {"b": 1}}), "Checksum": 1}).encode()) is None
    assert device_checksum(content({first: {"b": 1}, last: ["a"]})) == device_checksum(content({last: ["a"]}))


OLD = {**ENTRY, "DeviceIDs": ["0"]}
CAME = {**ENTRY, "PodUID": "came", "DeviceIDs": {"0": ["1"], "1": ["2"]}}


def test_devices_of_others_are_added_in_the_old_format() -> None:
    saved = checkpoint({"PodDeviceEntries": [OLD], **GPUS})
    written = checkpoint({"PodDeviceEntries": [{**OLD, "DeviceIDs": {"0": ["0"]}}, CAME], **GPUS})

    both = with_newcomers(saved, written)

    assert json.loads(both)["Data"]["PodDeviceEntries"] == [OLD, {**CAME, "DeviceIDs": ["1", "2"]}]
    assert read_devices(both) is not None


@pytest.mark.parametrize(
    "written",
    [
        None,
        b"{",
        *(checkpoint({"PodDeviceEntries": entries, **GPUS}) for entries in (None, [OLD], [{**OLD, "PodUID": "came"}])),
        checkpoint({"PodDeviceEntries": [{**CAME, "DeviceIDs": None}], **GPUS}),
        checkpoint({"PodDeviceEntries": [{**CAME, "DeviceIDs": {"0": None}}], **GPUS}),
        json.dumps({"Data": {"PodDeviceEntries": [{**CAME, "Later": 1}], **GPUS}, "Checksum": 1}).encode(),
    ],
)
def test_without_others_it_is_what_it_was(written: bytes | None) -> None:
    saved = checkpoint({"PodDeviceEntries": [OLD], **GPUS})

    assert with_newcomers(saved, written) == saved


def test_one_that_had_no_devices_gets_those_of_others() -> None:
    both = with_newcomers(
        checkpoint({"PodDeviceEntries": None, **GPUS}), checkpoint({"PodDeviceEntries": [CAME], **GPUS})
    )

    assert [entry["PodUID"] for entry in json.loads(both)["Data"]["PodDeviceEntries"]] == ["came"]
