"""Says who a process is, for people."""

from pathlib import PurePosixPath

from nodeupgrade.node.host.processes.processes import ProcessTable

LENGTH = 80
UNKNOWN = "an unknown process"


def described(processes: ProcessTable, pid: int, *, kubelet: PurePosixPath, unit: str) -> str:
    """Return the name, PID and unit of a process, such as ``crictl (process 4711 of session-3.scope)``.

    Args:
        kubelet: path of the kubelet's program.
        unit: the kubelet's unit.

    Returns:
        Empty for the kubelet: a process of its unit, or of its program, whose unit may have a control group elsewhere.
    """
    stat = processes.stat(pid)
    if stat is None:
        return UNKNOWN if pid <= 0 else f"a process that has ended ({pid})"
    units = processes.units(pid)
    if unit in units or processes.executable(pid) == kubelet:
        return ""
    name = "".join(letter if letter.isprintable() else "?" for letter in stat.command)
    of = f" of {units[-1]}" if units else ""
    return f"{name} (process {pid}{of})"[:LENGTH]
