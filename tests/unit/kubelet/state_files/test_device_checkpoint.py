"""Tests how the device manager's checkpoint is read."""

from typing import Any

import pytest

from nodeupgrade.kubelet.state_files.device_checkpoint import DeviceCheckpoint, read_devices
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
