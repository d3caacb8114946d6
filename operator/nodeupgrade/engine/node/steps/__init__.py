"""The steps of one node's run: one module each, with ``prepare``, ``do``, ``undo`` and ``is_done``.

``prepare`` only reads; its result is in the journal before ``do`` starts, and is all that ``undo`` gets. ``do`` and
``undo`` may be interrupted anywhere and are then run again, so both must be idempotent.
"""

from collections.abc import Mapping
from typing import Protocol

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.task.step import Step
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.steps import (
    arm_dead_man,
    confirm_binaries,
    confirm_inventory,
    hold_package,
    lower_shield,
    pin_static_pods,
    raise_shield,
    read_back,
    restart_runtime,
    rewrite_hashes,
    save_state,
    set_arguments,
    start_kubelet,
    stop_kubelet,
    swap_binary,
    swap_files,
    verify,
)

Payload = Mapping[str, JsonValue]


class StepActions(Protocol):
    """The functions of a step's module. All may raise StepFailed or Transient."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return what ``undo`` will need; change nothing."""
        ...

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Carry out the step."""
        ...

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | None:
        """Reverse the step, wherever it was interrupted; return a sentence about what could not be reversed."""
        ...

    def is_done(self, node: Node, plan: RunPlan, payload: Payload) -> bool:
        """Report whether the node shows that the step is done; called after an interruption."""
        ...


STEPS: Mapping[Step, StepActions] = {
    Step.CONFIRM_BINARIES: confirm_binaries,
    Step.HOLD_PACKAGE: hold_package,
    Step.ARM_DEAD_MAN: arm_dead_man,
    Step.STOP_KUBELET: stop_kubelet,
    Step.CONFIRM_INVENTORY: confirm_inventory,
    Step.SAVE_STATE: save_state,
    Step.PIN_STATIC_PODS: pin_static_pods,
    Step.REWRITE_HASHES: rewrite_hashes,
    Step.RESTART_RUNTIME: restart_runtime,
    Step.READ_BACK: read_back,
    Step.RAISE_SHIELD: raise_shield,
    Step.SWAP_FILES: swap_files,
    Step.SET_ARGUMENTS: set_arguments,
    Step.SWAP_BINARY: swap_binary,
    Step.START_KUBELET: start_kubelet,
    Step.VERIFY: verify,
    Step.LOWER_SHIELD: lower_shield,
}
