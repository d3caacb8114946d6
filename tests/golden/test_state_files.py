"""State files as Kubernetes' own packages of several releases wrote them: their checksums are recomputed here.

Each line of state-files.jsonl has the release, the file, and its content: the CPU and memory managers' states before
and after something was pinned, and checkpoints of devices with and without any.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.layout import CPU_STATE, DEVICE_STATE, MEMORY_STATE, read_layout
from nodeupgrade.kubelet.state_files.device_checkpoint import read_devices
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.state_files import state_files_are_readable
from tests.builders.sound import readiness

LINES = [json.loads(line) for line in Path(__file__).with_name("state-files.jsonl").read_text().splitlines()]
STATES = [line for line in LINES if line["file"] in {CPU_STATE, MEMORY_STATE}]
CHECKPOINTS = [line for line in LINES if line["file"] == DEVICE_STATE]


def named(line: dict[str, Any]) -> str:
    return f"{line['release']}-{Path(line['file']).name}"


def is_readable(release: str, file: str, content: str) -> bool:
    target = KubeletVersion.parse(f"v{release}")
    layout = read_layout(("--cgroup-driver=systemd", "--cpu-manager-policy=static", "--memory-manager-policy=Static"))
    met = readiness(layout=layout, current=target, target=target, state={file: content.encode()})
    return not ask([state_files_are_readable], met)


def damaged(content: str) -> str:
    """Change something that is not a checksum: a policy's name, or how much memory there is."""
    return content.replace('"static"', '"Static"').replace('"Static"', '"STATIC"').replace(r"\"static\"", r"\"STATIC\"")


@pytest.mark.parametrize("line", STATES, ids=named)
def test_a_release_reads_what_it_wrote_and_nothing_that_was_changed(line: dict[str, Any]) -> None:
    release, file, content = line["release"], line["file"], line["content"]

    assert is_readable(release, file, content)
    assert not is_readable(release, file, damaged(content))


@pytest.mark.parametrize("line", CHECKPOINTS, ids=named)
def test_devices_are_read_from_what_a_release_wrote_and_not_from_what_was_changed(line: dict[str, Any]) -> None:
    content = line["content"]
    found = read_devices(content.encode())

    assert found is not None
    assert {name for _, name, _ in found.holdings} <= {"app", "main"}
    changed = content.replace('"pod-b"', '"pod-c"').replace('"RegisteredDevices":{}', '"RegisteredDevices":{"x":[]}')
    assert read_devices(changed.encode()) is None


@pytest.mark.parametrize(
    ("wrote", "reads", "readable"),
    [
        ("1.17.17", "1.33.13", True),
        ("1.17.17", "1.37.0", False),
        ("1.20.15", "1.17.17", False),
    ],
)
def test_formats_are_told_apart_by_their_checksums(wrote: str, reads: str, readable: bool) -> None:
    first = next(line for line in STATES if (line["release"], line["file"]) == (wrote, CPU_STATE))

    assert is_readable(reads, CPU_STATE, first["content"]) is readable
