"""Kinds of machines, how they are started and what is in their files; none is started here."""

import json
from pathlib import Path

import pytest

from e2e.faults.run import on_the_way_back
from e2e.lab.errors import LabError
from e2e.lab.machines.machine import Machine
from e2e.lab.machines.machinefiles import machine_files, with_driver
from e2e.lab.machines.qemu import Guest
from e2e.lab.machines.vmnode import VmNode, node_at
from e2e.lab.naming import NodeAddresses
from e2e.lab.spec import LabSpec
from e2e.machines.copies import FORWARD
from e2e.machines.kinds import ROWS
from e2e.machines.kinds.cuts import spread
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, Failpoint, When, at

ADDRESSES = NodeAddresses(3)


def files(machine: Machine) -> dict[str, str]:
    return machine_files(machine, ADDRESSES, "ssh-ed25519 AAAA lab\n")


def guest(disk: str, accelerator: str = "tcg", machine: Machine | None = None) -> str:
    there = Path("/there")
    found = Guest(
        machine=machine or Machine(), kernel=there / "vmlinuz", initrd=there / "initrd.img", disk=there / disk,
        directory=there, accelerator=accelerator,
    )  # fmt: skip
    return " ".join(found.command(ADDRESSES))


def test_a_machine_is_read_as_it_was_written() -> None:
    machine = Machine(suite="trixie", cgroup_driver="cgroupfs", security="selinux", swap=512, noexec_var=True)
    assert Machine.parse(json.loads(json.dumps(machine.json()))) == machine


@pytest.mark.parametrize("wrong", [{"suite": "sid"}, {"cgroup_driver": "none"}, {"security": "smack"}])
def test_a_kind_that_is_not_known_is_an_error(wrong: dict[str, str]) -> None:
    with pytest.raises(LabError, match="choose one of"):
        Machine(**wrong)  # type: ignore[arg-type]


def test_kubelet_and_runtime_have_the_same_driver() -> None:
    for driver in ("systemd", "cgroupfs"):
        machine = Machine(cgroup_driver=driver)
        word = "true" if driver == "systemd" else "false"
        assert f"SystemdCgroup = {word}" in files(machine)["/etc/containerd/config.toml"]
        assert json.loads(with_driver('{"cgroupDriver": "x", "maxPods": 3}', machine)) == {
            "cgroupDriver": driver,
            "maxPods": 3,
        }


def test_swap_and_a_var_without_programs_are_mounts() -> None:
    mounts = files(Machine(swap=512, noexec_var=True))["/etc/fstab"]
    assert "/swapfile none swap" in mounts
    assert "/var /var none bind,noexec" in mounts
    assert "swap" not in files(Machine())["/etc/fstab"]


def test_selinux_is_a_matter_of_kernel_configuration_and_packages() -> None:
    machine = Machine(security="selinux")
    assert "enforcing=1" in machine.kernel_options
    assert "SELINUX=enforcing" in files(machine)["/etc/selinux/config"]
    assert "apparmor" not in machine.packages
    assert "enforcing=1" not in Machine().kernel_options


def test_the_emulator_gets_the_disk_in_its_format_and_the_tap_of_the_node() -> None:
    assert "file=/there/disk.raw,if=none,id=disk,format=raw," in guest("disk.raw")
    assert "file=/there/disk-2.qcow2,if=none,id=disk,format=qcow2," in guest("disk-2.qcow2")
    assert "ifname=node3," in guest("disk.raw")
    assert "accel=kvm" in guest("disk.raw", "kvm")
    assert "accel=kvm" not in guest("disk.raw")


def test_a_node_is_what_its_record_says(tmp_path: Path) -> None:
    written = {"number": 1, "kubelet": "1.30.14", "what_only_another_checkout_knows": True}
    (tmp_path / "node.json").write_text(json.dumps(written))
    assert not isinstance(node_at("lab", tmp_path), VmNode)
    (tmp_path / "node.json").write_text(json.dumps({**written, "machine": Machine(memory=512).json()}))
    node = node_at("lab", tmp_path)
    assert isinstance(node, VmNode)
    assert node.machine.memory == 512
    assert node.image == tmp_path / "disk.raw"


def test_machines_need_containerd_in_a_plain_cluster() -> None:
    assert LabSpec(machine="vm").default_machine == Machine()
    assert LabSpec().default_machine is None
    for wrong in ({"cluster": "kubeadm"}, {"runtime": "docker"}):
        with pytest.raises(LabError, match="virtual machines"):
            LabSpec(machine="vm", **wrong)  # type: ignore[arg-type]


def test_places_are_spread_over_the_run_with_both_its_ends() -> None:
    found = [Failpoint(str(number)) for number in range(10)]
    assert spread(found, 4) == ["0", "3", "6", "9"]
    assert spread(found, 20) == found


def test_the_power_is_cut_at_every_place_of_a_run_but_not_on_a_way_back() -> None:
    back = {name for name in FAILPOINTS if on_the_way_back(name)}
    assert set(FORWARD) == set(FAILPOINTS) - back
    assert len(FORWARD) == len(set(FORWARD))
    steps = tuple(Step)
    assert (FORWARD[0], FORWARD[-1]) == (at(steps[0], When.ANNOUNCED), at(steps[-1], When.DONE))


def test_every_row_has_a_name_of_its_own_and_every_kind_a_control() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.kind.name for row in ROWS} == {row.kind.name for row in ROWS if row.name.endswith("/control")}
