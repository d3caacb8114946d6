"""Tests how the host's cgroup hierarchies are parsed."""

from pathlib import Path

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
