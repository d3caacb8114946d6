"""What the rescue script makes of each of its calls that goes wrong, once and always."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodeupgrade.node.rescue.timeouts import ABSENT_SECONDS
from tests.builders.rescue_rig import LOOK, Fault, Mode, Node, lies, old_again

LOOKS = 3
"""How often the script runs with the fault, and again without it."""


@dataclass(frozen=True)
class Situation:
    """What the script finds, and what has to come of it."""

    name: str
    build: Callable[[Path], Node]
    succeeds: Callable[[Node], bool]


def _alone(root: Path) -> Node:
    return Node(root).with_sockets("shield", "shield", "runtime")


def _with_spare(root: Path) -> Node:
    return Node(root, rewrites=True).write("spare-works", "")


def _handed_over(node: Node) -> bool:
    return node.read("executor-runs") == "yes\n"


SITUATIONS = (
    Situation("no copy of the program starts, no hash was rewritten", _alone, old_again),
    Situation("the other copy starts, hashes were rewritten", _with_spare, _handed_over),
)


@dataclass(frozen=True)
class Case:
    """One fault, and how the node ended."""

    situation: str
    call: str
    mode: Mode
    always: bool
    ended: str


def begin(situation: Situation, root: Path) -> Node:
    """Return a node on which the executor has been away for long enough."""
    return situation.build(root).write(LOOK, f"absent 0 0 0{' ' * 88}\n")


def kinds(situation: Situation, root: Path) -> tuple[str, ...]:
    """Return the script's calls in their order, each with its paths left out."""
    node = begin(situation, root)
    for _ in range(LOOKS):
        node.look(after=ABSENT_SECONDS)
    return tuple(node.read("calls").splitlines())


def kind(call: str, root: Path) -> str:
    """Return the beginning of a call that tells it from others: program, verb, and unit."""
    words = call.split()
    if words[0] == "systemctl":
        return " ".join(words)
    return " ".join([words[0], *(word for word in words[1:2] if str(root) not in word)])


def once(situation: Situation, place: Callable[[], Path], modes: Mapping[Mode, object]) -> Iterator[Case]:
    """Yield what comes of each call that goes wrong once."""
    root = place()
    for number, call in enumerate(kinds(situation, root), 1):
        for mode in modes:
            yield _case(situation, place(), Fault(mode, number=number), kind(call, root))


def always(situation: Situation, place: Callable[[], Path], modes: Mapping[Mode, object]) -> Iterator[Case]:
    """Yield what comes of each kind of call that goes wrong whenever it is made, until that is mended."""
    root = place()
    for command in dict.fromkeys(kind(call, root) for call in kinds(situation, root)):
        for mode in modes:
            yield _case(situation, place(), Fault(mode, command=command), command)


def _case(situation: Situation, root: Path, fault: Fault, call: str) -> Case:
    node = begin(situation, root).has(fault).looks(LOOKS)
    ended = _ended(situation, node)
    if ended == "still trying":
        after = _ended(situation, node.has(None).looks(LOOKS))
        ended = ended if after == "done" else f"{ended}, and then {after}"
    return Case(situation.name, call, fault.mode, bool(fault.command), ended)


def _ended(situation: Situation, node: Node) -> str:
    if told := lies(node):
        return f"WRONG: it {', '.join(told)}"
    if situation.succeeds(node):
        return "done"
    if node.started:
        return "WRONG: a kubelet was started on what is not its own"
    return "WRONG: it has ended" if node.read("timer") else "still trying"
