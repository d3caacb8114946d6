"""Tests for measuring the memory of a container."""

from pathlib import Path

import pytest

from nodeupgrade.node.host.processes.memory import memory_in_use


@pytest.mark.parametrize(
    ("groups", "group", "files", "expected"),
    [
        ("0::/pods/cri-c1.scope/init\n", "pods/cri-c1.scope",
         {"memory.current": "900\n", "memory.stat": "anon 1\ninactive_file 200\n"}, 700),
        ("5:cpu,memory:/pods/c1\n0::/\n", "memory/pods/c1",
         {"memory.usage_in_bytes": "900\n", "memory.stat": "inactive_file 1\ntotal_inactive_file 300\n"}, 600),
        ("0::/elsewhere\n", "elsewhere", {"memory.current": "900\n", "memory.stat": "anon 1\n"}, None),
        ("0::/pods/c1\n", "pods/c1", {}, None),
        ("", "pods/c1", {}, None),
    ],
)  # fmt: skip
def test_memory_in_use_is_the_working_set(
    tmp_path: Path, groups: str, group: str, files: dict[str, str], expected: int | None
) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(groups)
    (tmp_path / "cgroups" / group).mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "cgroups" / group / name).write_text(text)
    assert memory_in_use(7, "c1", tmp_path / "proc", tmp_path / "cgroups") == expected
    assert memory_in_use(8, "c1", tmp_path / "proc", tmp_path / "cgroups") is None
