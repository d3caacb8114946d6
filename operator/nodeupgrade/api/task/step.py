"""The steps of a run: the node side records them in its journal, and the task's status lists them by name."""

from enum import StrEnum


class Step(StrEnum):
    """The steps of a run; forward order is the order of definition."""

    CONFIRM_BINARIES = "confirm-binaries"
    HOLD_PACKAGE = "hold-package"
    ARM_DEAD_MAN = "arm-dead-man"
    STOP_KUBELET = "stop-kubelet"
    CONFIRM_INVENTORY = "confirm-inventory"
    SAVE_STATE = "save-state"
    PIN_STATIC_PODS = "pin-static-pods"
    REWRITE_HASHES = "rewrite-hashes"
    RESTART_RUNTIME = "restart-runtime"
    READ_BACK = "read-back"
    RAISE_SHIELD = "raise-shield"
    SWAP_FILES = "swap-files"
    SET_ARGUMENTS = "set-arguments"
    SWAP_BINARY = "swap-binary"
    START_KUBELET = "start-kubelet"
    AWAIT_NODE_STATUS = "await-node-status"
    VERIFY = "verify"
    LOWER_SHIELD = "lower-shield"


COMMIT = tuple(Step)[-1]
"""The step whose end is the point of no return."""
