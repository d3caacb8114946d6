"""The emulator of a machine: how it is started, and what it is told while it runs."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.lab import naming
from e2e.lab.errors import LabError
from e2e.lab.host import network
from e2e.lab.machines.machine import Machine
from e2e.lab.process import wait_until

PROGRAM = "qemu-system-x86_64"
_DISK = "disk"
_KVM_SECONDS = 20
_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What the emulator starts."""

    machine: Machine
    kernel: Path  # the kernel's file
    initrd: Path  # its initial file system
    disk: Path  # the image of the disk
    directory: Path  # where its console is recorded and its control socket is
    accelerator: str  # ``kvm`` or ``tcg``

    @property
    def console(self) -> Path:
        """The record of its console."""
        return self.directory / "console.log"

    def command(self, addresses: naming.NodeAddresses) -> list[str]:
        """Return the emulator's command line."""
        way = f"tap,id=net,ifname={addresses.port},script=no,downscript=no"
        return [
            PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            *_accelerated(self.accelerator),
            "-smp", str(self.machine.processors), "-m", str(self.machine.memory),
            "-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append", " ".join(self.machine.kernel_options),
            "-drive", f"file={self.disk},if=none,id={_DISK},format={kind(self.disk)},cache=writeback",
            "-device", f"virtio-blk-pci,drive={_DISK}",
            "-netdev", way, "-device", f"virtio-net-pci,netdev=net,mac={network.machine_address(addresses)}",
            "-device", "virtio-rng-pci",
            "-serial", f"file:{self.console}",
            "-qmp", f"unix:{control(self.directory)},server=on,wait=off",
        ]  # fmt: skip


def kind(image: Path) -> str:
    """Return the format of an image."""
    return "raw" if image.suffix == ".raw" else "qcow2"


def control(directory: Path) -> Path:
    """Return the emulator's control socket."""
    return directory / "qmp"


def _accelerated(accelerator: str) -> list[str]:
    if accelerator == "kvm":
        return ["-machine", "q35,accel=kvm", "-cpu", "host"]
    # A processor without AVX: a boot costs a sixth less than with all that can be emulated.
    return ["-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem"]


def accelerator(kernel: Path) -> str:
    """Find out whether this kernel really runs with KVM here: a device alone does not say so.

    Returns:
        ``kvm`` or ``tcg``.
    """
    if not Path("/dev/kvm").exists():
        return "tcg"
    words = ["-nodefaults", "-display", "none", "-no-reboot", "-m", "512", "-serial", "stdio"]
    command = [PROGRAM, *words, *_accelerated("kvm"), "-kernel", str(kernel), "-append", "console=ttyS0 panic=-1"]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_KVM_SECONDS, check=False)
        output = said.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    return "kvm" if b"Linux version" in output else "tcg"


@contextlib.contextmanager
def stopped(directory: Path) -> Iterator[None]:
    """Stop the machine while the context lasts; its clocks stop, too."""
    tell(directory, "stop")
    try:
        yield
    finally:
        tell(directory, "cont")


def freeze_disk(directory: Path, onto: Path) -> None:
    """Let the machine write to a new image from now on, so that the one before stays as the disk is now.

    What the guest has not written is not there, as after a power cut.
    """
    tell(directory, "blockdev-snapshot-sync", device=_DISK, **{"snapshot-file": str(onto), "format": "qcow2"})


def tell(directory: Path, command: str, **arguments: str) -> dict[str, Any]:
    """Give the emulator a command of its monitor, and return the answer.

    Raises:
        LabError: it refuses, or does not answer.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(control(directory)))
            with connection.makefile("rw") as stream:
                stream.readline()
                _ask(stream, {"execute": "qmp_capabilities"})
                answer = _ask(stream, {"execute": command, "arguments": arguments})
        except OSError as error:
            raise LabError(f"the emulator in {directory} does not answer: {error}") from error
    if "error" in answer:
        raise LabError(f"the emulator in {directory} refuses {command}: {answer['error']['desc']}")
    return answer


def _ask(stream: Any, question: dict[str, Any]) -> dict[str, Any]:
    stream.write(json.dumps(question) + "\n")
    stream.flush()
    while True:
        line = stream.readline()
        if not line:
            raise LabError("the emulator ended its conversation")
        answer: dict[str, Any] = json.loads(line)
        if "event" not in answer:
            return answer


def wait_until_it_listens(directory: Path) -> None:
    """Wait until the emulator can be told something."""

    def answers() -> bool:
        return "return" in tell(directory, "query-status")

    wait_until("the emulator", answers, timeout=20)
