"""Tests which state files a kubelet reads, and which changes make one unreadable for older kubelets."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelet.layout import (
    CLAIM_STATE,
    CPU_STATE,
    DEVICE_STATE,
    MEMORY_STATE,
    READ_AT_START,
    RESIZE_STATES,
    STATUS_STATE,
    read_layout,
)
from nodeupgrade.kubelet.state_files.device_checkpoint import with_newcomers
from nodeupgrade.kubelet.state_files.formats import breaks, read_by, unreadable
from nodeupgrade.kubelethash import KubeletVersion

V = KubeletVersion.parse
KEYS = (
    "policyName", "defaultCpuSet", "entries", "checksum", "data", "Data", "Checksum", "PodDeviceEntries", "DeviceIDs",
    "RegisteredDevices", "PodUID", "ContainerName", "ResourceName", "machineState", "dataChecksum", "0",
)  # fmt: skip
WRITTEN = [
    json.loads(line) for line in (Path(__file__).parents[3] / "golden" / "state-files.jsonl").read_text().splitlines()
]
"""What releases really wrote."""


@pytest.mark.parametrize(
    ("version", "gates", "read"),
    [
        ("v1.17.17", "", {CPU_STATE, DEVICE_STATE}),
        ("v1.30.14", "", {CPU_STATE, MEMORY_STATE, DEVICE_STATE}),
        (
            "v1.30.14", "DynamicResourceAllocation=true,InPlacePodVerticalScaling=true",
            {CPU_STATE, MEMORY_STATE, DEVICE_STATE, CLAIM_STATE, STATUS_STATE},
        ),
        ("v1.33.13", "", {CPU_STATE, MEMORY_STATE, DEVICE_STATE, *RESIZE_STATES}),
        ("v1.33.13", "InPlacePodVerticalScaling=false", {CPU_STATE, MEMORY_STATE, DEVICE_STATE}),
        ("v1.34.1", "", {CPU_STATE, MEMORY_STATE, DEVICE_STATE, CLAIM_STATE, *RESIZE_STATES}),
    ],
)  # fmt: skip
def test_a_kubelet_reads_what_its_version_and_its_gates_say(version: str, gates: str, read: set[str]) -> None:
    layout = read_layout((f"--feature-gates={gates}",) if gates else ())

    assert set(read_by(V(version), layout)) == read


@pytest.mark.parametrize("wrote", WRITTEN, ids=lambda line: f"{line['release']}-{Path(line['file']).name}")
@pytest.mark.parametrize("release", ["1.17.17", "1.20.15", "1.33.13", "1.36.1"])
def test_what_a_release_wrote_is_unreadable_for_another_only_where_the_format_changed(
    release: str, wrote: dict[str, str]
) -> None:
    """The table that the rescue script is made by agrees with what the content shows."""
    reader, writer = V(f"v{release}"), V(f"v{wrote['release']}")
    problem = unreadable(wrote["file"], wrote["content"].encode(), reader, writer)

    assert problem is None or breaks(wrote["file"], reader, writer)


@pytest.mark.parametrize("name", READ_AT_START)
def test_from_one_patch_to_the_next_nothing_changes(name: str) -> None:
    assert [minor for minor in range(5, 38) if breaks(name, V(f"v1.{minor}.0"), V(f"v1.{minor}.9"))] == []


def test_nothing_but_a_change_of_format_makes_state_files_unreadable() -> None:
    pairs = [(minor, name) for minor in range(5, 37) for name in READ_AT_START
             if breaks(name, V(f"v1.{minor}.0"), V(f"v1.{minor + 1}.0"))]  # fmt: skip

    assert pairs == [
        (17, CPU_STATE), (19, DEVICE_STATE), (27, CLAIM_STATE), (29, CLAIM_STATE), (30, CLAIM_STATE),
        (31, STATUS_STATE),
    ]  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40), st.sampled_from(READ_AT_START))
def test_whatever_somebody_wrote_there_is_judged(data: bytes, name: str) -> None:
    for reader, writer in (("v1.17.17", "v1.20.15"), ("v1.31.1", "v1.32.0"), ("v1.36.1", "v1.37.0")):
        unreadable(name, data, V(reader), V(writer))
        with_newcomers(data, data)
