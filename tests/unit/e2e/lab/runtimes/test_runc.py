"""Tests the wrapper around runc."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.runtimes import crio
from e2e.lab.runtimes.runc import wrapper

CAPABILITIES = ("CAP_CHOWN", "CAP_KILL", "CAP_SYS_TIME", "CAP_BPF")
HOLDS = "CapBnd:\t{:016x}\n"


@pytest.mark.parametrize("indent", [None, "\t"], ids=["as Docker writes it", "as CRI-O writes it"])
@pytest.mark.parametrize(
    ("lacking", "left"),
    [
        ((), CAPABILITIES),
        (("CAP_CHOWN",), CAPABILITIES[1:]),
        (("CAP_BPF",), CAPABILITIES[:-1]),
        (("CAP_KILL", "CAP_SYS_TIME"), ("CAP_CHOWN", "CAP_BPF")),
        (CAPABILITIES, ()),
    ],
)
def test_no_container_gets_what_the_node_itself_lacks(
    tmp_path: Path, lacking: tuple[str, ...], left: tuple[str, ...], indent: str | None
) -> None:
    numbers = {"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_SYS_TIME": 25, "CAP_BPF": 39}
    status, config = tmp_path / "status", tmp_path / "config.json"
    status.write_text(HOLDS.format((1 << 41) - 1 - sum(1 << numbers[name] for name in lacking)))
    process: dict[str, Any] = {"capabilities": {"bounding": [*CAPABILITIES], "ambient": []}, "oomScoreAdj": -997}
    given = {"process": process, "args": ["a\nb\tc"], "linux": {"hugepageLimits": []}}
    config.write_text(json.dumps(given, indent=indent, separators=None if indent else (",", ":")))
    script = tmp_path / "runc"
    text = wrapper(crio.NO_HUGE_PAGES, program=shutil.which("echo") or "")
    script.write_text(text.replace("/proc/self/status", str(status)))
    script.chmod(0o755)

    done = subprocess.run(
        [script, "create", "--bundle", str(tmp_path), "c1"], capture_output=True, text=True, check=True, timeout=600
    )

    process = {"capabilities": {"bounding": [*left], "ambient": []}, "oomScoreAdj": 0}
    assert json.loads(config.read_text()) == given | {"process": process, "linux": {"hugepageLimitsOff": []}}
    assert done.stdout.split() == ["create", "--bundle", str(tmp_path), "c1"]
