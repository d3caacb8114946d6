"""Memory is short in mid-run: the kernel kills executor and shield, once, or whenever they begin."""

from collections.abc import Callable, Iterator

from e2e.faults.kinds.shield import SHIELD
from e2e.faults.run import EXECUTOR
from e2e.lab.machines.vmnode import VmNode
from e2e.lab.process import wait_until
from e2e.machines import copies
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import NEW, OLD, Stage, Upgraded
from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED

_PLACE = KUBELET_STARTED
_UNITS = (EXECUTOR, SHIELD)
_LIMIT = "4M"
"""Less than a Python program needs to begin."""
_CONTROL = "/run/systemd/system.control"
_RESCUED = """\
newest=$(ls -td /var/lib/nodeupgrade/runs/* | head -n 1)
[ -e "$newest/rescue" ] && grep -q '"mark":"finished"' "$newest/journal"
"""
_BACK = (f"RolledBack (`{Reason.EXECUTOR_LOST}`)",)


def limit(node: VmNode) -> None:
    """Leave executor and shield too little memory, whenever they run."""
    for unit in _UNITS:
        node.exec("systemctl", "set-property", "--runtime", unit, f"MemoryMax={_LIMIT}")


def lift(node: VmNode) -> None:
    """Leave them all memory again."""
    node.exec("sh", "-c", f"rm -rf {_CONTROL}/nodeupgrade-*; systemctl daemon-reload")


def killed(node: VmNode, unit: str) -> int:
    """Return how often processes of a unit were killed for want of memory since the boot."""
    script = 'journalctl --boot --output=cat --unit="$1" | grep -c "killed by the OOM killer"'
    return int(node.exec("sh", "-c", script, "killed", unit, check=False).stdout)


def _played(name: str, until: Callable[[VmNode], None], *ends: str) -> Callable[[Stage], Seen]:
    """Limit the memory in mid-run; lift the limit after what is waited for."""

    def play(stage: Stage) -> Seen:
        node = stage.node
        before, after = (OLD, NEW) if stage.version() == OLD else (NEW, OLD)
        counts = [killed(node, unit) for unit in _UNITS]

        def meanwhile() -> None:
            copies.wait_reached(node, _PLACE, lambda: stage.is_over(name))
            limit(node)
            try:
                until(node)
            finally:
                lift(node)

        copies.arm(node, [_PLACE])
        try:
            run = stage.upgrade(name, after, meanwhile=meanwhile)
        finally:
            copies.disarm(node)
        deaths = [killed(node, unit) - count for unit, count in zip(_UNITS, counts, strict=True)]
        said = f"{before} → {after}, {run.seconds:.0f} s; killed: executor {deaths[0]}, shield {deaths[1]} times"
        return Seen(run=run, said=said, complaints=tuple(_wrong(run, deaths, ends)))

    return play


def _wrong(run: Upgraded, deaths: list[int], ends: tuple[str, ...]) -> Iterator[str]:
    yield from run.wrong(*ends)
    yield from (f"{unit} was not killed: this proves nothing" for unit, n in zip(_UNITS, deaths, strict=True) if not n)


def _until_killed(node: VmNode) -> None:
    counts = {unit: killed(node, unit) for unit in _UNITS}
    wait_until("a death of each", lambda: all(killed(node, unit) > counts[unit] for unit in _UNITS), timeout=60)


def _until_rescued(node: VmNode) -> None:
    def rescued() -> bool:
        return node.exec("sh", "-c", _RESCUED, check=False).returncode == 0 and node.kubelet_healthy()

    wait_until("the rescue", rescued, timeout=180, interval=2)


ROWS = (
    Row(name="memory/once", kind=machines.PLAIN, does=f"executor and shield killed for want of memory at `{_PLACE}`",
        play=_played("memory-once", _until_killed, "Succeeded")),
    Row(name="memory/short", kind=machines.PLAIN,
        does=f"executor and shield killed whenever they begin, from `{_PLACE}` on, until the old kubelet runs",
        play=_played("memory-short", _until_rescued, *_BACK)),
)  # fmt: skip
