"""What a step of a run does, and how it is undone."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan

Payload: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Unreversed:
    """What an undo could not reverse."""

    why: str  # a sentence
    doubtful: Mapping[ContainerId, str]  # containers that are not watched and the old kubelet may restart, with labels


class StepActions(ABC):
    """One step. All methods may raise StepFailed or Transient.

    ``prepare`` only reads; its result is in the journal before ``do`` starts, and is all that ``undo`` gets. ``do`` and
    ``undo`` may be interrupted anywhere and are then repeated, so both must be idempotent.
    """

    def prepare(self, _node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
        """Return what ``undo`` will need; change nothing."""
        return {}

    @abstractmethod
    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Carry out the step."""

    def undo(self, _node: Node, _plan: RunPlan, _payload: Payload) -> str | Unreversed | None:
        """Reverse the step, wherever it was interrupted; return a sentence about what could not be reversed."""
        return None

    def is_done(self, _node: Node, _plan: RunPlan, _payload: Payload) -> bool:
        """Report whether the node shows that the step is done; called after an interruption. If not, it is repeated."""
        return False
