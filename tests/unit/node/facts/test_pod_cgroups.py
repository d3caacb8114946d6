"""The cgroups of running pods: how the kubelet names them, and what they lack."""

from collections.abc import Mapping
from typing import Any

import pytest

from nodeupgrade.node.checks.facts import PodCgroups
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from tests.builders.gathered import gathered, node
from tests.builders.sound import readiness
from tests.builders.surrounded_host import FILES, GROUPS, POD, ROOT, Host, known

UID = "12345678-90ab-cdef-1234-567890abcdef"
SLICE = f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/x.scope"
SEEN_FROM_A_POD = f"0::/../../../burstable/pod{UID}/0123456789abcdef"


@pytest.mark.parametrize(
    ("lines", "driver"),
    [
        (f"12:memory:/system.slice/kubelet.service\n{SLICE}\n", "systemd"),
        (f"0::/../kubelet-kubepods-besteffort-pod{UID.replace('-', '_')}.slice/x.scope", "systemd"),
        (f"4:cpu:/kubepods/besteffort/pod{UID}/0123\n3:pids:/", "cgroupfs"),
        (f"0::/kubepods/pod{'0a' * 16}/x", "cgroupfs"),
        (SEEN_FROM_A_POD, "cgroupfs"),
        ("0::/\n", None),
        ("0::/podman.slice/pods", None),
    ],
)
def test_the_cgroup_driver_is_told_from_a_pods_own_cgroup(lines: str, driver: str | None) -> None:
    seen = node()
    process = next(sandbox.process for sandbox in seen.inventory().sandboxes)
    assert process is not None
    seen.disk[f"/proc/{process.pid}/cgroup"] = lines.encode()

    assert gathered(seen).readiness.cgroup_driver == driver


def cgroups(files: Mapping[str, bytes], **given: Any) -> PodCgroups:
    found = look_at_surroundings(Host(files=files), known(**given)).cgroups
    assert found is not None
    return found


def test_a_controller_that_a_pod_lacks_is_found() -> None:
    found = cgroups({**FILES, f"{GROUPS}/{POD}/cgroup.controllers": b"cpu io memory pids"})

    assert found.incomplete == {"default/web": ("cpuset", "hugetlb")}
    assert found.complete.places == {}, "what was incomplete before is not lost in the run"


def test_a_pod_that_has_ended_meanwhile_is_told_from_one_that_lost_its_cgroup() -> None:
    process = next(container.process for container in known().inventory.containers)
    assert process is not None
    gone = {path: data for path, data in FILES.items() if POD not in path}

    assert cgroups(gone).ended == {"default/web"}
    assert cgroups({**gone, f"/proc/{process.pid}/stat": b"1 (pause) S 1"}).ended == frozenset()


def test_a_controller_that_the_node_lacks_is_none_that_pods_need() -> None:
    few = b"cpu memory pids"

    found = cgroups({**FILES, f"{GROUPS}/cgroup.controllers": few, f"{GROUPS}/{POD}/cgroup.controllers": few})

    assert found.incomplete == {}
    assert found.complete.controllers == ("cpu", "memory", "pids")


def test_a_cgroup_of_all_pods_that_is_not_there_is_told() -> None:
    assert not cgroups({"/proc/1/mountinfo": ROOT.encode()}).exists


def test_on_cgroup_v1_a_pod_must_be_in_every_hierarchy() -> None:
    mounts = [
        f"30 21 0:30 / {GROUPS}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        f"31 21 0:31 / {GROUPS}/memory rw - cgroup cgroup rw,memory",
        f"32 21 0:32 / {GROUPS}/systemd rw - cgroup cgroup rw,xattr,name=systemd",
        f"33 21 0:33 / {GROUPS}/net_cls rw - cgroup cgroup rw,net_cls",
    ]
    files = {
        "/proc/1/mountinfo": "\n".join((ROOT, *mounts)).encode(),
        f"{GROUPS}/memory/kubepods.slice/cgroup.procs": b"",
        f"{GROUPS}/memory/kubepods.slice/memory.limit_in_bytes": b"9223372036854771712\n",
        f"{GROUPS}/memory/kubepods.slice/memory.usage_in_bytes": b"4096\n",
        f"{GROUPS}/memory/{POD}/cgroup.procs": b"",
        f"{GROUPS}/systemd/{POD}/cgroup.procs": b"",
    }
    old = readiness(cgroup_v2=False)

    found = cgroups(files, readiness=old)
    assert (found.incomplete, found.used) == ({"default/web": ("cpu", "cpuacct")}, 4096)
    assert cgroups({**files, f"{GROUPS}/cpu,cpuacct/{POD}/cgroup.procs": b""}, readiness=old).incomplete == {}
