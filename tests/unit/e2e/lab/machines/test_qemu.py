"""Tests QEMU's command line."""

from pathlib import Path

from e2e.lab.machines.machine import Machine
from e2e.lab.machines.qemu import Guest
from tests.builders.lab import ADDRESSES


def guest(disk: str, accelerator: str = "tcg", machine: Machine | None = None) -> str:
    there = Path("/there")
    found = Guest(
        machine=machine or Machine(), kernel=there / "vmlinuz", initrd=there / "initrd.img", disk=there / disk,
        directory=there, accelerator=accelerator,
    )  # fmt: skip
    return " ".join(found.command(ADDRESSES))


def test_the_emulator_gets_the_disk_in_its_format_and_the_tap_of_the_node() -> None:
    assert "file=/there/disk.raw,if=none,id=disk,format=raw," in guest("disk.raw")
    assert "file=/there/disk-2.qcow2,if=none,id=disk,format=qcow2," in guest("disk-2.qcow2")
    assert "ifname=node3," in guest("disk.raw")
    assert "accel=kvm" in guest("disk.raw", "kvm")
    assert "accel=kvm" not in guest("disk.raw")
