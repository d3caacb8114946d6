"""Where a run keeps its programs: what a plan says of it beforehand is what a run then finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from e2e.faults.run import EXECUTOR
from e2e.lab.machines.vmnode import VmNode
from e2e.looks import Look, look
from e2e.machines import copies
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import BOUNDS, Stage, Upgraded
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.own_directories import PROGRAM_PLACES

FIRST, SECOND = map(str, PROGRAM_PLACES)
"""The places for programs, in the order in which they are tried."""
_PLACE = at(Step.READ_BACK, When.DONE)
_REFUSED = f"Refused (`{Reason.EXECUTOR_UNAVAILABLE}`)"
# A filesystem all of whose files have the label of data: nothing can be labelled there.
_UNLABELLED = """\
image=/opt/$(basename "$(dirname "$1")").img
truncate --size=256M "$image"
mkfs.ext4 -q "$image"
mkdir -p "$1"
mount -o loop,context=system_u:object_r:var_lib_t:s0 "$image" "$1"
"""
_AS_BEFORE = 'umount "$1"; rm -f "/opt/$(basename "$(dirname "$1")").img"'
_PROGRAM = """\
program=$(systemctl show --property=ExecStart --value "$1" | sed 's/.*path=\\([^ ;]*\\).*/\\1/')
ls -Zd "$program"
"""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a machine, and what takes it back."""

    make: Callable[[VmNode], object]
    undo: Callable[[VmNode], object]


def _unlabelled(*places: str) -> _Change:
    def each(script: str) -> Callable[[VmNode], object]:
        return lambda node: [node.exec("sh", "-ec", script, "place", place, timeout=120) for place in places]

    return _Change(each(_UNLABELLED), each(_AS_BEFORE))


def _remounted(option: str, otherwise: str, path: str) -> _Change:
    def remount(option: str) -> Callable[[VmNode], object]:
        return lambda node: node.exec("mount", "-o", f"remount,bind,{option}", path)

    return _Change(remount(option), remount(otherwise))


def _alike(name: str, change: _Change, *, ends: str, place: str = "") -> Callable[[Stage], Seen]:
    """Let a plan and then a run find a changed machine; in mid-run, look where the executor's program is."""

    def play(stage: Stage) -> Seen:
        node, version, programs = stage.node, stage.other(), list[str]()
        stage.wait_workload()

        def find_program() -> None:
            copies.wait_reached(node, _PLACE, lambda: stage.is_over(name))
            programs.append(node.exec("sh", "-ec", _PROGRAM, "program", EXECUTOR).stdout.strip())
            copies.release(node, _PLACE)

        if place:
            copies.arm(node, [_PLACE])
        change.make(node)
        try:
            said = look(stage.cluster, f"{name}-plan", version, **BOUNDS)
            run = stage.upgrade(name, version, meanwhile=find_program if place else lambda: None)
        finally:
            change.undo(node)
            if place:
                copies.disarm(node)
        text = f"plan: {said.verdict}" + "".join(f"; the executor's program: `{each}`" for each in programs)
        wrong = tuple(_wrong(said, run, ends, place, programs))
        return Seen(run=run, said=f"{text}; “{run.message}”" if ends == _REFUSED else text, complaints=wrong)

    return play


def _wrong(said: Look, run: Upgraded, ends: str, place: str, programs: list[str]) -> Iterator[str]:
    yield from run.wrong(ends)
    planned = f"{said.verdict} (`{said.reason}`)" if said.verdict == "Refused" else "Succeeded"
    if planned != ends:
        yield f"the plan says {said.verdict} ({said.reason})"
    yield from (f"the executor's program is {each}" for each in programs if f" {place}/" not in f" {each}")


ROWS = (
    Row(name="selinux/elsewhere", kind=machines.SELINUX,
        does=f"plan and run, `{FIRST}` without labels of its own files",
        play=_alike("selinux-elsewhere", _unlabelled(FIRST), ends="Succeeded", place=SECOND)),
    Row(name="selinux/nowhere", kind=machines.SELINUX,
        does=f"plan and run, `{FIRST}` and `{SECOND}` without such labels",
        play=_alike("selinux-nowhere", _unlabelled(FIRST, SECOND), ends=_REFUSED)),
    Row(name="noexec/elsewhere", kind=machines.NOEXEC, does=f"plan and run, where the programs are in `{SECOND}`",
        play=_alike("noexec-elsewhere", _Change(lambda _: None, lambda _: None), ends="Succeeded", place=SECOND)),
    Row(name="noexec/nowhere", kind=machines.NOEXEC, does="plan and run, `/var/lib/kubelet` mounted `noexec`, too",
        play=_alike("noexec-nowhere", _remounted("noexec", "exec", "/var/lib/kubelet"), ends=_REFUSED)),
)  # fmt: skip
