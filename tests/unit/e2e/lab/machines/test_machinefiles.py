"""Tests the files of a virtual machine."""

import json

from e2e.lab.machines.machine import Machine
from e2e.lab.machines.machinefiles import machine_files, with_driver
from tests.builders.lab import ADDRESSES


def files(machine: Machine) -> dict[str, str]:
    return machine_files(machine, ADDRESSES, "ssh-ed25519 AAAA lab\n")


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
