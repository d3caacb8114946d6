"""What can go wrong, sorted by what may be done next.

::

    NodeUpgradeError
    ├── Refused            nothing was touched; a reason and a remedy        → report, wait for a change
    ├── Transient          the outside world was busy                        → retried at the adapter's edge
    ├── StepFailed         an effect did not take                            → roll back
    │   ├── MetadataConflict   stored metadata is not what was read before
    │   └── ContainerGone      the runtime no longer holds the container
    └── Inconsistent       journal and world disagree beyond the rules       → stop, call a human
"""

from nodeupgrade.api.errors import NodeUpgradeError
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding

__all__ = [
    "ContainerGone",
    "Inconsistent",
    "MetadataConflict",
    "NodeUpgradeError",
    "Refused",
    "StepFailed",
    "Transient",
]


class Refused(NodeUpgradeError):
    """The node must not be touched, and was not."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.finding = Finding(reason=reason, detail=detail)


class Transient(NodeUpgradeError):
    """The outside world did not answer in time; the same call may succeed later."""


class StepFailed(NodeUpgradeError):
    """An effect on the node did not take; what was done must be undone.

    Attributes:
        changed: containers that were not as planned any more before anything was done to them.
    """

    def __init__(self, message: str, *, reason: Reason = Reason.STEP_FAILED, changed: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.changed = changed


class MetadataConflict(StepFailed):
    """Stored container metadata differs from what was read before; it was left as it is."""


class ContainerGone(StepFailed):
    """The runtime no longer holds the container."""


class Inconsistent(NodeUpgradeError):
    """Journal and node disagree in a way no rule covers; automation stops here."""
