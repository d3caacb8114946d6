"""What a pod that may write where others log puts in the place of a log, which a starting containerd opens.

Or of a directory that a starting kubelet, or CRI-O, makes.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from e2e import pods
from e2e.faults.fault import BACK, UP, Fault, is_containerd, is_crio
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.process import PATIENCE, wait_until
from nodeupgrade.api.json import from_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at
from nodeupgrade.node.journal.journal import Record
from nodeupgrade.node.run.report import RunReport

NAME = "logged"
PUTS_FOR = 2.0
"""Seconds. What is put there just once before the restart is moved aside; this is put there again meanwhile."""
MOST_SECONDS = 60.0
"""Without a kubelet: the budget, and the way back."""
Put = Callable[[Path], None]


def pipe(log: Path) -> None:
    other = log.with_name("other")
    os.mkfifo(other)
    other.rename(log)


def program(log: Path) -> None:
    other = log.with_name("other")
    shutil.copy(shutil.which("sleep") or "", other)
    subprocess.Popen([other, "120"])
    other.rename(log)


def once(put: Put, moment: Failpoint) -> Harm:
    """Put it there at a moment before the runtime restarts."""

    def put_once(run: FaultRun, log: Path) -> None:
        put(log)
        run.release(moment)
        _ended(run)
        if not log.is_file():
            raise LabError(f"{log} is no file")

    return _at(moment, put_once)


def while_it_restarts(put: Put) -> Harm:
    """Put it there again for some seconds, so that it lies there when the runtime opens it."""
    moment = at(Step.RESTART_RUNTIME, When.ANNOUNCED)

    def put_again(run: FaultRun, log: Path) -> None:
        putting = threading.Thread(target=_put_again, args=(put, log))
        putting.start()
        run.release(moment)
        putting.join()
        down = from_json(RunReport, _ended(run).payload, strict=True).down_seconds
        if down is None or down > MOST_SECONDS * PATIENCE:
            raise LabError(f"it was without a kubelet for {down} s")

    return _at(moment, put_again)


def in_place_of(directory: str, moment: Failpoint) -> Harm:
    """Put a link that leads nowhere in the place of a directory at a moment at which no kubelet runs."""

    def harm(run: FaultRun) -> Iterator[None]:
        there = run.cluster.node.root / directory.lstrip("/")
        with run.armed(moment, "hang"):
            yield
            run.wait_hit(moment)
            before = there.rename(there.with_name("before"))
            there.symlink_to("/nowhere")
            try:
                run.release(moment)
                _ended(run)
                run.cluster.node.wait_kubelet_healthy()
                if there.is_symlink() or not there.is_dir():
                    raise LabError(f"{directory} is no directory")
            finally:
                if there.is_symlink():
                    there.unlink()
                there.mkdir(exist_ok=True)
                for each in before.iterdir():
                    each.rename(there / each.name)
                before.rmdir()
            yield

    return harm


def _at(moment: Failpoint, act: Callable[[FaultRun, Path], None]) -> Harm:
    """Hold a run at a moment, and do something to the log of a pod."""

    def harm(run: FaultRun) -> Iterator[None]:
        with pods.running(run.cluster, pods.pod(run.cluster, NAME)):
            log = _log(run)
            with run.armed(moment, "hang"):
                yield
                run.wait_hit(moment)
                act(run, log)
                yield

    return harm


def _ended(run: FaultRun) -> Record:
    return wait_until("the end of the run", lambda: run.journal().finished, timeout=300)


def _put_again(put: Put, log: Path) -> None:
    until, there = time.monotonic() + PUTS_FOR, None
    while time.monotonic() < until:
        if there is None or not log.exists() or log.lstat().st_ino != there:
            put(log)
            there = log.lstat().st_ino
        time.sleep(0.001)


def _log(run: FaultRun) -> Path:
    there = (run.cluster.node.root / "var/log/pods").glob(f"{pods.NAMESPACE}_{NAME}_*")
    return max(there, key=lambda each: each.stat().st_ctime_ns) / "main/0.log"  # those of earlier pods may be left


STOPPED, ON_THE_WAY_BACK = at(Step.STOP_KUBELET, When.DONE), at(Step.REWRITE_HASHES, When.UNDOING)
OF_KUBELET, OF_CRIO = "/var/log/containers", "/var/log/crio/pods"

FAULTS = (
    Fault("logs/directory-once-stopped", in_place_of(OF_KUBELET, STOPPED), BACK),
    Fault("logs/directory-on-the-way-back", in_place_of(OF_KUBELET, ON_THE_WAY_BACK), BACK),
    Fault("logs/crio-directory-once-stopped", in_place_of(OF_CRIO, STOPPED), UP, needs=is_crio),
    Fault("logs/crio-directory-on-the-way-back", in_place_of(OF_CRIO, ON_THE_WAY_BACK), BACK, needs=is_crio),
    Fault("logs/pipe-once-stopped", once(pipe, STOPPED), UP, needs=is_containerd),
    Fault("logs/pipe-on-the-way-back", once(pipe, ON_THE_WAY_BACK), BACK, needs=is_containerd),
    Fault("logs/pipe-at-the-restart", while_it_restarts(pipe), BACK, needs=is_containerd),
    Fault("logs/program-at-the-restart", while_it_restarts(program), BACK, needs=is_containerd),
)
