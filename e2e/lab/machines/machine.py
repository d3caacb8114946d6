"""What kind of machine a node is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from e2e.lab.errors import LabError

SUITES = ("bookworm", "trixie")
DRIVERS = ("systemd", "cgroupfs")
SECURITY = ("apparmor", "selinux")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A virtual machine."""

    # Debian release: kernel 6.1, systemd 252 and containerd 1.6 in bookworm; 6.12, 257 and 1.7 in trixie
    suite: str = "bookworm"
    cgroup_driver: str = "systemd"  # of runtime and kubelet, on cgroup v2 in any case
    security: str = "apparmor"  # the kernel's security module; SELinux enforces Debian's own policy
    memory: int = 3072  # MiB
    processors: int = 2  # how many the guest has
    swap: int = 0  # MiB; none if 0
    noexec_var: bool = False  # whether no program may be executed below ``/var`` but in the kubelet's directory

    def __post_init__(self) -> None:
        for value, known in ((self.suite, SUITES), (self.cgroup_driver, DRIVERS), (self.security, SECURITY)):
            if value not in known:
                raise LabError(f"a machine cannot be {value}; choose one of {', '.join(known)}")

    @property
    def selinux(self) -> bool:
        """Whether SELinux enforces."""
        return self.security == "selinux"

    @property
    def packages(self) -> tuple[str, ...]:
        """The Debian packages that it has beside those of every node."""
        kernel = ("linux-image-amd64", "initramfs-tools", "udev", "openssh-server", "openssh-sftp-server")
        return (*kernel, *(("selinux-policy-default", "policycoreutils") if self.selinux else ("apparmor",)))

    @property
    def kernel_options(self) -> tuple[str, ...]:
        """The options with which its kernel is started."""
        options = ("root=/dev/vda", "rw", "console=ttyS0", "net.ifnames=0", "mitigations=off", "panic=-1", "quiet")
        return (*options, *(("security=selinux", "selinux=1", "enforcing=1") if self.selinux else ()))

    def json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, written: Mapping[str, Any]) -> Self:
        """Return the machine that was written as an object of JSON."""
        return cls(**written)
