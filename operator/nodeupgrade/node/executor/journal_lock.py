"""Who has a journal locked: an executor, the rescue script, or anybody who may read the file."""

from nodeupgrade.api.values import RunId
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.executor.units import UNITS
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.journal.run_store import JOURNAL
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.rescue import script


def may_be_ours(run: RunId) -> bool:
    """Report whether a unit of ours may have the journal of a run locked; true if that is not known.

    What locks it for the rescue script ends at once, and leaves the lock to the script.
    """
    path = RUNS / run / JOURNAL
    processes = ProcessTable()
    try:
        pids = HostFiles().lockers([path]).get(path, ())
        ours = any(unit in UNITS for pid in pids for unit in processes.units(pid))
        return ours or not SystemdManager().status(script.UNIT).down
    except (StepFailed, Transient):
        return True
