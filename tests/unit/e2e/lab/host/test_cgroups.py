"""Tests how the host's cgroup hierarchies are parsed, and what weight the labs have."""

from pathlib import Path

import pytest

from e2e.lab.host import cgroups
from e2e.lab.host.cgroups import Hierarchy, parse_hierarchies


def test_cgroup_hierarchies_of_hybrid_and_unified_hosts() -> None:
    hybrid = """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,release_agent=/x/agent,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/cpuset rw shared:11 - cgroup cgroup rw,cpuset,clone_children
34 30 0:30 / /sys/fs/cgroup/unified rw shared:12 - cgroup2 cgroup2 rw,nsdelegate
"""
    top = Path("/sys/fs/cgroup")
    assert parse_hierarchies(hybrid) == (
        Hierarchy(top / "systemd", "none,name=systemd"),
        Hierarchy(top / "cpu,cpuacct", "cpu,cpuacct"),
        Hierarchy(top / "cpuset", "cpuset"),
        Hierarchy(top / "unified", ""),
    )
    unified = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:8 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
    assert parse_hierarchies(unified) == (Hierarchy(top, ""),)


@pytest.mark.parametrize(("name", "usual", "weight"), [("cpu.shares", "1024", "4096"), ("cpu.weight", "100", "400")])
def test_all_labs_together_weigh_more_than_one_session(
    name: str, usual: str, weight: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, other = tmp_path / "labs" / "one", tmp_path / "freezer"
    lab.mkdir(parents=True)
    other.mkdir()
    for place in (lab.parent, lab):
        (place / name).write_text(usual)
    monkeypatch.setattr(cgroups, "hierarchies", lambda: (Hierarchy(tmp_path, "cpu"), Hierarchy(other, "freezer")))
    cgroups.create("labs/one")
    assert ((lab.parent / name).read_text(), (lab / name).read_text()) == (weight, usual)
    assert list((other / "labs").iterdir()) == [other / "labs" / "one"], "no controller, no weight"
