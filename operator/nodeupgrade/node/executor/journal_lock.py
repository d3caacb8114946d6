"""Who may have a journal locked: an executor, the rescue script, or anybody who may read the file."""

import os

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.executor.units import EXECUTOR
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.node import SPARE_EXECUTOR
from nodeupgrade.node.rescue import script


def may_be_ours() -> bool:
    """Report whether another unit of ours that locks a journal runs; true if that is not known.

    systemd is asked: any pod can have the kernel's list of locks become too long to be read, and a process of one be in
    a cgroup with the name of our unit.
    """
    services = SystemdManager()
    try:
        units = map(services.status, (EXECUTOR, SPARE_EXECUTOR, script.UNIT))
        return any(not unit.down and unit.main_pid != os.getpid() for unit in units)
    except (StepFailed, Transient):
        return True
