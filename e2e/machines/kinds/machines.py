"""The kinds of machines."""

from e2e.lab.machines.machine import Machine
from e2e.machines.row import Kind

PLAIN = Kind(name="bookworm", machine=Machine())
CGROUPFS = Kind(name="bookworm, cgroupfs", machine=Machine(cgroup_driver="cgroupfs"))
TRIXIE = Kind(name="trixie", machine=Machine(suite="trixie"))
SELINUX = Kind(name="bookworm, SELinux", machine=Machine(security="selinux"))
SWAP = Kind(name="bookworm, swap", machine=Machine(memory=2048, swap=2048))
NOEXEC = Kind(name="bookworm, /var noexec", machine=Machine(noexec_var=True))
LITTLE = Kind(name="bookworm, little memory", machine=Machine(memory=1024))

KINDS = (PLAIN, SELINUX, TRIXIE, CGROUPFS, NOEXEC, SWAP, LITTLE)
"""All of them, in the order in which they are used."""
