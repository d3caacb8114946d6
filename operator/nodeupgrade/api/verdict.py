"""How the control plane counts a finished run: said in tasks, and in the status of a NodeUpgrade."""

from enum import StrEnum


class Verdict(StrEnum):
    """How the control plane counts a finished run."""

    PRECHECKED = "Prechecked"
    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"
