"""What a pod does that has no limit of processes: it takes all that the kernel allows all of them together."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.faults.fault import BACK, EITHER, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.cluster.deploy import FAILPOINTS
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at
from nodeupgrade.node.journal.journal import Mark

OWN = Path("/proc/sys/kernel/pid_max")
MOST = 6000
"""The limit of the node for the row. The machine has its own (Linux 6.14 on), and keeps it."""
FORKS = "my $p; while (defined($p = fork)) { $p or sleep 3600 } print 1; $| = 1; print 1; sleep 3600"
"""Takes what there is, and keeps it."""


def processes(moment: Failpoint) -> Harm:
    """Take all processes that the node may have while the executor hangs at a moment, and keep them."""

    def harm(run: FaultRun) -> Iterator[None]:
        before = OWN.read_text()
        with run.armed(moment, "hang"):
            yield
            run.wait_hit(moment)
            inside = ("nsenter", "-t", str(run.cluster.node.pid), "--pid", "--mount", "--")
            subprocess.run([*inside, "sysctl", "-qw", f"kernel.pid_max={MOST}"], check=True, timeout=60)
            if OWN.read_text() != before:
                raise LabError("a node's limit of processes is this machine's: the row needs Linux 6.14")
            hog = subprocess.Popen([*inside, "perl", "-e", FORKS], start_new_session=True, stdout=subprocess.PIPE)
            try:
                wait_until("the last process", lambda: os.read(hog.stdout.fileno(), 1), timeout=120)  # type: ignore[union-attr]
                (run.cluster.node.root / FAILPOINTS.lstrip("/") / f"{moment}.hit").unlink()  # from outside
                run.wait_record(None, Mark.FINISHED, timeout=600)
            finally:
                os.killpg(hog.pid, signal.SIGKILL)
                hog.wait()
        yield

    return harm


FAULTS: tuple[Fault, ...] = tuple(
    Fault(f"limit/processes-{name}", processes(moment), ends)
    for name, moment, ends in (
        ("once-stopped", at(Step.STOP_KUBELET, When.DONE), EITHER),
        ("before-the-start", at(Step.START_KUBELET, When.ANNOUNCED), EITHER),
        ("on-the-way-back", at(Step.REWRITE_HASHES, When.UNDOING), BACK),
    )
)
