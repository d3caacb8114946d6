"""Devices that running containers may use, and systemd does not know of."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.checks.facts import NodeFacts, Surroundings
from nodeupgrade.node.facts.device_access import found_harmless, require_still_harmless
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.host.device_rules import UnitDevices
from tests.builders.sound import readiness
from tests.builders.surrounded_host import FILES, GROUPS, POD, Host, known

V1 = "\n".join(
    (
        "21 1 253:0 / / rw shared:1 - ext4 /dev/vda1 rw",
        "30 21 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro",
        *(
            f"3{number} 30 0:3{number} / {GROUPS}/{name} rw - cgroup cgroup rw,{name}"
            for number, name in enumerate(("memory", "devices"), start=1)
        ),
    )
)
GPU = b"500 499 0:5 /nvidia0 /dev/nvidia0 rw,nosuid,noexec - devtmpfs devtmpfs rw\n"
ALLOWED = ("/dev/char/1:3 rwm", "char-pts rwm", "/dev/char/1:11 rw", "char-* m")


def scope(seen: NodeFacts) -> tuple[str, str, str]:
    """Return label, PID and unit of the container."""
    (one,) = seen.inventory.containers
    assert one.process is not None
    return one.label, str(one.process.pid), f"cri-containerd-{one.id}.scope"


def looked_at(
    *,
    v2: bool,
    listed: bytes = b"",
    mounted: bytes = b"",
    policy: str = "strict",
    nested: str = "",
    table: bytes = FILES["/proc/1/mountinfo"],
    more: Mapping[str, bytes] = {},
    users: str = "user:[4026531837]",
) -> Surroundings:
    seen = known(readiness=readiness(cgroup_driver="systemd", cgroup_v2=v2))
    _, pid, unit = scope(seen)
    groups = {f"{GROUPS}/memory/{place}/cgroup.procs": b"" for place in ("kubepods.slice", POD)}
    place = {"/proc/1/mountinfo": table} if v2 else {"/proc/1/mountinfo": V1.encode(), **groups}
    host = Host(
        files={
            **FILES,
            **place,
            f"{GROUPS}/{POD}/{unit}{nested}/cgroup.procs": f"{pid}\n9\n".encode(),
            f"/proc/{pid}/mountinfo": mounted,
            "/proc/devices": b"Character devices:\n136 pts\n",
            f"{GROUPS}/devices/{POD}/{unit}/devices.list": listed,
            **more,
        }
    )
    host.files.links.update({"/proc/1/ns/user": "user:[4026531837]", f"/proc/{pid}/ns/user": users})
    allowed = () if policy == "auto" else ALLOWED
    host.services.scopes[unit] = UnitDevices(policy=policy, allowed=allowed, group=f"/{POD}/{unit}")
    return look_at_surroundings(host, seen)


def fragile(**given: Any) -> dict[str, tuple[str, ...]]:
    return dict(looked_at(**given).fragile_devices)


def test_on_v1_the_kernel_is_asked() -> None:
    label, *_ = scope(known())

    assert fragile(v2=False, listed=b"c 1:3 rwm\nc *:* m\n") == {}
    assert fragile(v2=False, listed=b"c 1:3 rwm\nc 195:0 rw\nc 10:229 rwm\n") == {label: ("c 195:0 rw", "c 10:229 rwm")}
    assert fragile(v2=False, listed=b"c 5:1 rwm\n") == {label: ("c 5:1 rwm",)}, "of the kernel's list, all counts"


def test_what_every_container_may_use_and_no_module_serves_is_lost_by_nobody() -> None:
    """systemd knows nothing of /dev/net/tun while its module is not loaded."""
    label, *_ = scope(known())
    default = b"c 1:3 rwm\nc 10:200 rwm\nc *:* m\n"

    assert fragile(v2=False, listed=default) == {}
    assert fragile(v2=False, listed=default, more={"/dev/char/10:200": b""}) == {label: ("c 10:200 rwm",)}


def test_what_a_reload_has_to_leave_is_planned_without_what_every_container_has() -> None:
    *_, unit = scope(known())
    found = looked_at(v2=False, listed=b"c 1:3 rwm\nc *:* m\nc 136:* rwm\nc 1:11 w\nc 195:0 rw\n").cgroups

    assert found is not None
    assert found.complete.devices == {f"{GROUPS}/devices/{POD}/{unit}/devices.list": ("c 1:11 w",)}


def test_on_v2_gpus_count_that_are_mounted() -> None:
    label, *_ = scope(known())

    assert fragile(v2=True, mounted=GPU.replace(b"nvidia0", b"null")) == {}
    assert fragile(v2=True, mounted=GPU) == {label: ("c 195:0 rw",)}
    for nested in ("container", "init.scope", "init"):
        assert fragile(v2=True, mounted=GPU, nested=f"/{nested}") == {label: ("c 195:0 rw",)}


VOLUME = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v"
IN_MEMORY = f"21 1 253:0 / / rw - ext4 /dev/vda1 rw\n44 21 0:99 / {VOLUME} rw - tmpfs tmpfs rw\n".encode()


@pytest.mark.parametrize(
    "mount",
    [
        b"500 499 253:0 /var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v /dev/nvidia0 rw - ext4 /dev/vda1 rw",
        b"500 499 253:0 /var/lib/kubelet/pods/u/containers/c/0123abcd /dev/nvidia0 rw - ext4 /dev/vda1 rw",
        b"500 499 253:0 /nvidia0 /dev/nvidia0 rw - ext4 /dev/vdb rw",
        b"500 499 0:5 /null /dev/nvidia0 rw - devtmpfs devtmpfs rw",
        b"500 499 0:99 /nvidia0 /dev/nvidia0 rw - tmpfs tmpfs rw",
        b"500 499 0:99 /a/nvidia0 /dev/nvidia0 rw - tmpfs tmpfs rw",
    ],
)
def test_a_volume_in_place_of_a_gpu_is_none(mount: bytes) -> None:
    """Any pod may mount one there, or its message of termination, and would keep its node from being upgraded."""
    assert fragile(v2=True, mounted=mount + b"\n", table=IN_MEMORY) == {}


DRIVER = b"44 21 0:99 / /run/nvidia/driver/dev rw shared:7 - tmpfs tmpfs rw\n"


@pytest.mark.parametrize("shown", [b"", DRIVER])
def test_a_gpu_that_a_driver_in_a_container_has_made_counts(shown: bytes) -> None:
    """It is in the /dev of that container, which is in memory, and which the node may show or not."""
    label, *_ = scope(known())
    table = b"21 1 253:0 / / rw - ext4 /dev/vda1 rw\n" + shown
    mount = b"500 499 0:99 /nvidia0 /dev/nvidia0 rw - tmpfs tmpfs rw\n"

    assert fragile(v2=True, mounted=mount, table=table) == {label: ("c 195:0 rw",)}


@pytest.mark.parametrize("noise", [b"x" * 3000, b"\xff\x0b \x1b[2J", "\u2028/dev/nvidia9 ".encode(), b"\0"])
def test_nothing_in_a_mount_table_that_a_pod_writes_hides_a_gpu_or_ends_the_examination(noise: bytes) -> None:
    label, *_ = scope(known())
    table = b"501 499 0:5 / /" + noise.replace(b" ", b"\\040") + b" rw - tmpfs tmpfs rw\n"

    assert fragile(v2=True, mounted=table + GPU + table) == {label: ("c 195:0 rw",)}


def test_a_mount_table_that_a_pod_has_blown_up_ends_no_examination() -> None:
    """Any process may: 68 MiB by 9,500 mounts in a user namespace of its own."""
    mount = b"501 499 0:5 /" + b"d" * 4000 + b" /tmp/" + b"d" * 4000 + b" rw - tmpfs x rw\n"

    assert fragile(v2=True, mounted=GPU + mount * 9500) == {}


def test_where_systemd_keeps_no_list_a_reload_takes_nothing() -> None:
    assert fragile(v2=False, listed=b"c 195:0 rw\n", policy="auto") == {}


def test_a_list_that_is_not_understood_is_an_error_with_its_path() -> None:
    with pytest.raises(StepFailed, match=r"cannot read .*devices\.list: cannot read the device rule 'nonsense'"):
        fragile(v2=False, listed=b"c 1:3 rwm\nnonsense\n")


@pytest.mark.parametrize("shown", [b"", DRIVER])
def test_a_file_system_that_only_another_user_namespace_has_makes_no_gpu(shown: bytes) -> None:
    """Whoever has a user namespace may mount a tmpfs there, at any place, with a file of any name in it."""
    label, *_ = scope(known())
    table = b"21 1 253:0 / / rw - ext4 /dev/vda1 rw\n" + shown
    mount = b"500 499 0:99 /nvidia0 /dev/nvidia0 rw - tmpfs tmpfs rw\n"

    found = fragile(v2=True, mounted=mount, table=table, users="user:[4026532000]")
    assert found == ({label: ("c 195:0 rw",)} if shown else {})
    assert fragile(v2=True, mounted=GPU, users="user:[4026532000]") == {label: ("c 195:0 rw",)}, "nobody can mount that"


@pytest.mark.parametrize(
    "point",
    [
        "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/a/shm",
        "/run/containers/storage/overlay-containers/a/userdata/shm",
        "/var/lib/docker/containers/a/mounts/shm",
    ],
)
def test_the_shared_memory_of_a_pod_makes_no_gpu(point: str) -> None:
    """The runtime mounts it in the node's table, and in a user namespace of its own any process of the pod mounts it
    in place of a GPU.
    """
    table = f"21 1 253:0 / / rw - ext4 /dev/vda1 rw\n44 21 0:99 / {point} rw - tmpfs shm rw\n".encode()
    mount = b"500 499 0:99 /nvidia0 /dev/nvidia0 rw - tmpfs shm rw\n"

    assert fragile(v2=True, mounted=mount, table=table, users="user:[4026532000]") == {}


ID = "c0ffee00" * 8
UNIT = f"cri-containerd-{ID}.scope"
SPEC = PurePosixPath("/run/containerd/io.containerd.runtime.v2.task/k8s.io", ID, "config.json")
GPU_RULE = {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}
BY_DEFAULT = (
    {"allow": False, "access": "rwm"},
    *({"allow": True, "type": "c", "major": 1, "minor": each, "access": "rwm"} for each in (3, 5, 7, 8, 9)),
    *({"allow": True, "type": "c", "major": 5, "minor": each, "access": "rwm"} for each in (0, 1, 2)),
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
    {"allow": True, "type": "c", "major": 10, "minor": 200, "access": "rwm"},
    {"allow": True, "type": "c", "access": "m"},
    {"allow": True, "type": "b", "access": "m"},
)
WITHOUT_CONSOLE = ("1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:2", "10:200")
KNOWN_BY_DEFAULT = (*(f"/dev/char/{each} rwm" for each in WITHOUT_CONSOLE), "char-136 rwm", "char-* m", "block-* m")


def specified(*rules: Any) -> bytes:
    return json.dumps({"linux": {"resources": {"devices": [*BY_DEFAULT, *rules]}}}).encode()


def told(
    spec: bytes | None,
    *allowed: str,
    at: PurePosixPath = SPEC,
    table: bytes = FILES["/proc/1/mountinfo"],
    process: bytes = b"77\n",
) -> dict[str, tuple[str, ...]]:
    """Return what is lost by a container on cgroup v2 of whose devices systemd was told these."""
    seen = known(readiness=readiness(cgroup_driver="systemd", cgroup_v2=True))
    there = {} if spec is None else {str(at): spec}
    host = Host(files={**FILES, "/proc/1/mountinfo": table, f"{GROUPS}/{POD}/{UNIT}/cgroup.procs": process, **there})
    host.services.scopes[UNIT] = UnitDevices(
        policy="strict", allowed=(*KNOWN_BY_DEFAULT, *allowed), group=f"/{POD}/{UNIT}"
    )
    return dict(look_at_surroundings(host, seen).fragile_devices)


def test_on_v2_a_device_of_the_specification_counts_that_systemd_was_not_told_of() -> None:
    """With CDI nothing is mounted, and runc 1.1.3 to 1.1.6 tells nothing of a device without a link in /dev/char."""
    assert told(specified(GPU_RULE)) == {UNIT: ("c 195:0 rw",)}
    assert told(specified(GPU_RULE), "/dev/char/195:0 rw") == {}
    assert told(specified(GPU_RULE), "char-195 rw") == {}
    assert told(specified()) == {}


@pytest.mark.parametrize(
    "bundles",
    [
        "/run/containerd/io.containerd.runtime.v2.task/moby/{}",
        "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby/{}",
        "/run/containers/storage/overlay-containers/{}/userdata",
    ],
)
def test_the_specification_is_found_where_runtimes_keep_it(bundles: str) -> None:
    assert told(specified(GPU_RULE), at=PurePosixPath(bundles.format(ID), "config.json")) == {UNIT: ("c 195:0 rw",)}


@pytest.mark.parametrize(
    ("bundle", "mounted"), [("/srv/state/tasks/{}", "/rootfs"), ("/srv/run/vfs-containers/{}/userdata", "/shm")]
)
def test_the_specification_is_found_beside_what_another_container_has_mounted(bundle: str, mounted: str) -> None:
    """Runtimes keep their state where their settings say."""
    mount = f"44 21 0:99 / {bundle.format('d' * 64)}{mounted} rw - tmpfs tmpfs rw\n".encode()
    found = told(
        specified(GPU_RULE),
        at=PurePosixPath(bundle.format(ID), "config.json"),
        table=FILES["/proc/1/mountinfo"] + b"\n" + mount,
    )

    assert found == {UNIT: ("c 195:0 rw",)}


def test_what_a_user_has_mounted_is_no_place_of_specifications() -> None:
    """FUSE lets users mount in the node's own table, at directories of theirs, in which they may put anything."""
    mount = f"44 21 0:99 / /srv/u/{'d' * 64}/rootfs rw,nosuid - fuse.x x rw,user_id=1000,group_id=1000\n".encode()

    with pytest.raises(StepFailed, match=f"cannot tell which devices {UNIT} may use: its config.json is not in /run/"):
        told(
            specified(),
            at=PurePosixPath("/srv/u", ID, "config.json"),
            table=FILES["/proc/1/mountinfo"] + b"\n" + mount,
        )


def test_a_container_without_a_specification_is_refused_by_name_unless_it_has_ended() -> None:
    assert told(None, process=b"") == {}
    with pytest.raises(StepFailed, match=rf"which devices {UNIT} may use: its config.json is not in /run/") as refused:
        told(None)
    assert refused.value.reason is Reason.DEVICES_WOULD_BE_LOST


@pytest.mark.parametrize("spec", [b"", b"\xff", b"[" * 100_000, b"[]", b'{"linux": 1}', b"{"])
def test_a_specification_that_is_not_understood_is_refused_by_name(spec: bytes) -> None:
    with pytest.raises(StepFailed, match=f"cannot tell which devices {UNIT} may use: ") as refused:
        told(spec)
    assert refused.value.reason is Reason.DEVICES_WOULD_BE_LOST


def test_a_specification_that_was_read_is_not_read_again_while_no_kubelet_runs() -> None:
    """It does not change as long as the scope is there; a pod may make it megabytes large, by its environment."""
    host = Host(files={**FILES, str(SPEC): specified(), f"{GROUPS}/{POD}/{UNIT}/cgroup.procs": b"77\n"})
    host.services.scopes[UNIT] = UnitDevices(policy="strict", allowed=KNOWN_BY_DEFAULT, group=f"/{POD}/{UNIT}")
    found = found_harmless(host.files, host.services)
    del host.node_itself.disk[str(SPEC)]

    require_still_harmless(host.files, host.services, found)
