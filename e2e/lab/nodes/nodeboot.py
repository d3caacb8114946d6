"""How a node boots: the command line that ends as its PID 1, and what the host must provide for it."""

from pathlib import Path

from e2e.lab import naming
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups, network

_BOOT = Path(__file__).with_name("boot-node.sh")


def boot_command(lab: str, node: str, disk: Path) -> list[str]:
    """Create the node's cgroups and return the command that boots it and runs until its PID 1 ends."""
    # The process outside that waits for PID 1 must not be in the node's own cgroup: on version 2 a group with processes
    # of its own cannot delegate controllers, and the node's systemd cannot see, hence move, that process.
    outside = cgroups.create(f"{naming.lab_cgroup(lab)}/launchers")
    inside = cgroups.create(naming.node_cgroup(lab, node))
    shown = cgroups.hierarchies()
    hybrid = any(hierarchy.options for hierarchy in shown)
    return [
        *cgroups.entering(outside),
        "nsenter", f"--net={network.namespace_file(naming.node_namespace(lab, node))}",
        "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL",
        *cgroups.entering(inside),
        "unshare", "--cgroup",
        "sh", str(_BOOT), str(disk), node,
        *([f"{hierarchy.mount.name}={hierarchy.options}" for hierarchy in shown] if hybrid else []),
    ]  # fmt: skip


def check_cgroups(kubelet: Version) -> None:
    """Reject a kubelet that cannot run with the host's cgroups.

    Raises:
        LabError: with possible remedies.
    """
    if kubelet.release < (1, 19) and not any(hierarchy.options for hierarchy in cgroups.hierarchies()):
        reason = "it knows only version 1 cgroups and this machine has only version 2"
        remedy = "boot the machine with systemd.unified_cgroup_hierarchy=0 where its systemd still allows that"
        raise LabError(f"cannot run kubelet {kubelet} here because {reason}; take 1.20.15 or newer, or {remedy}")
