"""The machine's clocks in mid-run: set an hour on or back, stopped with the machine, and suspended."""

import time
from collections.abc import Callable

from e2e.lab.errors import LabError
from e2e.lab.machines import qemu
from e2e.lab.machines.vmnode import VmNode
from e2e.machines import copies
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import NEW, OLD, Stage
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at

HOUR = 3600
PAUSE = 180
"""Seconds for which the machine is stopped or suspended: longer than the control plane waits for a lease."""
_PLACE = at(Step.READ_BACK, When.DONE)


def move_clock(node: VmNode, seconds: int) -> None:
    """Set the machine's wall clock on by so many seconds, or back."""
    node.exec("sh", "-ec", f"date --set=@$(($(date +%s) + {seconds}))")


def set_right(node: VmNode) -> None:
    """Set the machine's wall clock to that of this machine."""
    node.exec("date", f"--set=@{time.time():.3f}")


def clocks(node: VmNode) -> tuple[float, float]:
    """Return the seconds since the machine's boot with the time in which it was suspended, and without."""
    told = node.exec("sh", "-ec", "cat /proc/uptime; grep -m1 'now at' /proc/timer_list").stdout.splitlines()
    return float(told[0].split()[0]), int(told[1].split()[2]) / 1e9


def _moved(name: str, first: int, then: int) -> Callable[[Stage], Seen]:
    """Move the clock before the run, and again in mid-run; at the end it is set right."""

    def play(stage: Stage) -> Seen:
        node = stage.node
        before, after = (OLD, NEW) if stage.version() == OLD else (NEW, OLD)
        set_right(node)
        move_clock(node, first)
        try:
            return _in_mid_run(stage, name, before, after, lambda: move_clock(node, then))
        finally:
            set_right(node)

    return play


def _stopped(stage: Stage) -> Seen:
    def stop() -> None:
        with qemu.stopped(stage.node.directory):
            time.sleep(PAUSE)

    before, after = (OLD, NEW) if stage.version() == OLD else (NEW, OLD)
    try:
        return _in_mid_run(stage, "stopped", before, after, stop)
    finally:
        set_right(stage.node)


def _suspended(stage: Stage) -> Seen:
    """Suspend to memory; a clock of the machine wakes it. Its two clocks differ from then on, also in the run after."""
    node = stage.node

    def suspend() -> None:
        node.exec("rtcwake", "--mode", "mem", "--seconds", str(PAUSE), timeout=PAUSE + 120)

    before, after = (OLD, NEW) if stage.version() == OLD else (NEW, OLD)
    seen = _in_mid_run(stage, "suspended", before, after, suspend)
    with_it, without = clocks(node)
    if with_it - without < PAUSE / 2:
        raise LabError(f"the machine's clocks differ by {with_it - without:.0f} s: it was not suspended")
    again = stage.upgrade("after-suspension", before)
    said = f"its clocks differ by {with_it - without:.0f} s; {after} → {before} after that: {again.ended}"
    return Seen(run=seen.run, said=f"{seen.said}; {said}", complaints=(*seen.complaints, *again.wrong()))


def _in_mid_run(stage: Stage, name: str, before: str, after: str, happens: Callable[[], None]) -> Seen:
    node = stage.node

    def meanwhile() -> None:
        copies.wait_reached(node, _PLACE, lambda: stage.is_over(name))
        happens()
        copies.release(node, _PLACE)

    copies.arm(node, [_PLACE])
    try:
        run = stage.upgrade(name, after, meanwhile=meanwhile)
    finally:
        copies.disarm(node)
    return Seen(run=run, said=f"{before} → {after}, {run.seconds:.0f} s", complaints=tuple(run.wrong()))


ROWS = (
    Row(name="clock/on", kind=machines.PLAIN, does=f"the clock an hour on at `{_PLACE}`",
        play=_moved("clock-on", 0, HOUR)),
    Row(name="clock/back", kind=machines.PLAIN, does=f"the clock, an hour fast, set back at `{_PLACE}`",
        play=_moved("clock-back", HOUR, -HOUR)),
    Row(name="stopped", kind=machines.PLAIN, does=f"the machine stopped for {PAUSE} s at `{_PLACE}`", play=_stopped),
    Row(name="suspended", kind=machines.PLAIN, does=f"suspended to memory for {PAUSE} s at `{_PLACE}`",
        play=_suspended),
)  # fmt: skip
