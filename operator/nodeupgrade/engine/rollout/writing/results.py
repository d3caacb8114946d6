"""What lanes are given to carry out actions with, and what became of them."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.actions import NodeAction

CarryOut: TypeAlias = Callable[[NodeAction], Awaitable[NodeAction | None]]
Tell: TypeAlias = Callable[[NodeAction], Awaitable[None]]
Follow: TypeAlias = Callable[[NodeName, NodeAction | None], Awaitable[Iterable[NodeAction]]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action for a node that the API server refused or did not answer, with its error."""

    node: NodeName
    deed: str
    problem: str


@dataclass(slots=True)
class Results:
    """What became of actions.

    Attributes:
        applied: the actions that succeeded.
        refused: those for single nodes that the API server refused or did not answer.
        followed: those of ``applied`` that were in no plan, but followed at once on others.
        complete: whether every action succeeded.
        fault: the error of a write to the NodeUpgrade itself, after which nothing more was done to it, or that of
            finding out what follows for a node.
    """

    applied: list[NodeAction] = field(default_factory=list)
    followed: list[NodeAction] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    complete: bool = True
    fault: NodeUpgradeError | None = None


async def nothing(_node: NodeName, _last: NodeAction | None) -> tuple[NodeAction, ...]:
    """Nothing follows."""
    return ()


@dataclass(frozen=True, slots=True)
class Crew:
    """Who works for one plan; nothing more is begun of the kinds of writes that were ``unanswered``."""

    carry_out: CarryOut
    tell: Tell
    follow: Follow
    unanswered: set[type[NodeAction]] = field(default_factory=set)
