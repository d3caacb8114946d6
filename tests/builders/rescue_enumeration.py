"""What the rescue script makes of each of its calls that goes wrong, once and always."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.builders.rescue_rig import LOOK, Fault, Mode, Node, lies, old_again

LOOKS = 3
"""How often the script runs with the fault, and again without it."""
DONE, TRYING = "done", "still trying"


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
    Situation("alone", _alone, old_again),
    Situation("with a spare", _with_spare, _handed_over),
)


def begin(situation: Situation, root: Path) -> Node:
    """Return a node on which the executor has been away for long enough."""
    return situation.build(root).write(LOOK, f"absent 0 0 0{' ' * 88}\n")


def calls(situation: Situation, root: Path) -> tuple[str, ...]:
    """Return the script's calls in their order, without what differs between nodes."""
    made = begin(situation, root).looks(LOOKS).read("calls").splitlines()
    return tuple(kind(call, root) for call in made)


def kind(call: str, root: Path) -> str:
    """Return what tells a call from others: the whole call of systemctl, a tool with its option."""
    program, *words = call.split()
    if program == "systemctl":
        return call
    return " ".join([program, *(word for word in words[:1] if word.startswith("-") and str(root) not in word)])


def faults(made: Sequence[str], modes: Iterable[Mode] = Mode) -> Iterator[tuple[str, Fault]]:
    """Yield each call with each of its faults: every call once, and every kind of call always."""
    for mode in modes:
        yield from ((call, Fault(mode, number=number)) for number, call in enumerate(made, 1))
        yield from ((call, Fault(mode, command=call)) for call in dict.fromkeys(made))


def ending(situation: Situation, root: Path, fault: Fault) -> str:
    """Return how a node with this fault ends: ``done``, ``still trying``, or what is wrong."""
    node = begin(situation, root).has(fault).looks(LOOKS)
    ended = _ended(situation, node)
    if ended != TRYING:
        return ended
    after = _ended(situation, node.has(None).looks(LOOKS))
    return TRYING if after == DONE else f"WRONG: without the fault, {after}"


def _ended(situation: Situation, node: Node) -> str:
    if told := lies(node):
        return f"WRONG: it {', '.join(told)}"
    if situation.succeeds(node):
        return DONE
    if node.started:
        return "WRONG: a kubelet was started on what is not its own"
    return "WRONG: it has ended" if node.read("timer") else TRYING
