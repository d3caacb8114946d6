"""What a pod does that has no limit of processes: it takes all that the kernel allows all of them together."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.cluster.deploy import FAILPOINTS
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at
from nodeupgrade.node.journal.journal import Mark

OWN = Path("/proc/sys/kernel/pid_max")
MOST = 6000
"""The limit of the node before the run. The machine has its own (Linux 6.14 on), and keeps it."""
FORKS = f"my $p; for (1..{MOST}) {{ last if !defined($p = fork); $p or sleep 3600 }} $| = 1; print 1; sleep 3600"
"""Takes what there was before the run, and keeps it."""


def processes(moment: Failpoint) -> Harm:
    """Take as many processes while the executor hangs at a moment, and keep them."""

    def harm(run: FaultRun) -> Iterator[None]:
        before, inside = OWN.read_text(), ("nsenter", "-t", str(run.cluster.node.pid), "--pid", "--mount", "--")
        with run.armed(moment, "hang"):
            subprocess.run([*inside, "sysctl", "-qw", f"kernel.pid_max={MOST}"], check=True, timeout=60)
            if OWN.read_text() != before:
                OWN.write_text(before)
                raise LabError("a node's limit of processes is this machine's: the row needs Linux 6.14")
            yield
            run.wait_hit(moment)
            hog = subprocess.Popen([*inside, "perl", "-e", FORKS], start_new_session=True, stdout=subprocess.PIPE)
            try:
                wait_until("the last process", lambda: os.read(hog.stdout.fileno(), 1), timeout=120)  # type: ignore[union-attr]
                (run.cluster.node.root / FAILPOINTS.lstrip("/") / f"{moment}.hit").unlink()  # from outside
                run.wait_record(None, Mark.FINISHED, timeout=400)
            finally:
                os.killpg(hog.pid, signal.SIGKILL)
                hog.wait()
        if "stay raised" not in str(run.journal().finished):
            raise LabError(f"the limit was not used up, or nobody tells: {run.journal().finished}")
        yield

    return harm


FAULTS: tuple[Fault, ...] = tuple(
    Fault(f"limit/processes-{name}", processes(moment), ends)
    for name, moment, ends in (
        ("once-stopped", at(Step.STOP_KUBELET, When.DONE), UP),
        ("before-the-start", at(Step.START_KUBELET, When.ANNOUNCED), UP),
        ("on-the-way-back", at(Step.REWRITE_HASHES, When.UNDOING), BACK),
    )
)
