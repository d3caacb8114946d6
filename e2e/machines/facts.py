"""What a machine says about itself: that it is of the kind that a row is about, and which versions it runs."""

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.lab.machines.vmnode import VmNode

_ASK = """\
uname -r
systemctl --version | sed -n '1s/.*(\\(.*\\)).*/\\1/p'
containerd --version | cut -d' ' -f3
stat --file-system --format=%T /sys/fs/cgroup
echo "$(cat /sys/fs/selinux/enforce 2>/dev/null || echo none)"
sed -n 's/^SwapTotal: *//p' /proc/meminfo
findmnt --noheadings --output OPTIONS --target /var
echo "$(tr -d '\\0' < /proc/$1/attr/current)"
cut -d: -f3 /proc/$1/cgroup
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a machine says about itself."""

    kernel: str
    systemd: str
    containerd: str
    cgroups: str
    enforces: str  # ``1`` if SELinux does
    swap: str  # how much there is
    mount: str  # options of the mount that ``/var`` is on
    confined: str  # what confines a container
    group: str  # the container's control group

    def __str__(self) -> str:
        """In words."""
        return (
            f"kernel {self.kernel}, systemd {self.systemd}, containerd {self.containerd}, {self.cgroups}, "
            f"containers `{self.confined}`"
        )

    def wrong(self, node: VmNode) -> Iterator[str]:
        """Yield what is not as the kind of the machine says, so that a row on it proves nothing."""
        machine = node.machine
        if self.cgroups != "cgroup2fs":
            yield f"its control groups are {self.cgroups}"
        if ("kubepods.slice" in self.group) != (machine.cgroup_driver == "systemd"):
            yield f"its containers are in {self.group}"
        if (self.enforces == "1") != machine.selinux:
            yield f"SELinux enforces: {self.enforces}"
        if not machine.selinux and not self.confined.startswith("cri-containerd.apparmor.d"):
            yield f"AppArmor does not confine its containers: {self.confined}"
        if self.swap.startswith("0 ") == bool(machine.swap):
            yield f"its swap is {self.swap}"
        if ("noexec" in self.mount.split(",")) != machine.noexec_var:
            yield f"/var is mounted with {self.mount}"


def facts(node: VmNode) -> Facts:
    """Ask a machine on which a container runs."""
    [pid, *_] = (container.pid for container in node.snapshot().running() if container.name == "web")
    told = node.exec("sh", "-c", _ASK, "ask", str(pid)).stdout.replace("\0", "").splitlines()
    return Facts(*told)
