"""Errors, grouped by how they are handled.

::

    NodeUpgradeError
    ├── Refused            nothing was touched; has a reason and a remedy    → report, wait for a change
    ├── Transient          an external system was busy or unreachable        → retried in the adapter
    ├── StepFailed         a step failed on the node                         → roll back
    │   ├── MetadataConflict   stored metadata changed since it was read, or has an unknown form
    │   ├── ContainerGone      the runtime no longer holds the container
    │   └── TimedOut           a program of the node did not end in time, so what it would say is unknown
    └── Inconsistent       journal and node disagree, and no rule covers it  → stop; a person must act
"""

from nodeupgrade.api.errors import NodeUpgradeError as NodeUpgradeError  # noqa: PLC0414 - part of this module's interface
from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding


class Refused(NodeUpgradeError):
    """The node must not be touched, and nothing was changed on it.

    Attributes:
        finding: why; it names the check that would have found it, if the facts for that check could not be gathered.
    """

    def __init__(self, reason: Reason, detail: str, *, check: str = "") -> None:
        super().__init__(detail)
        self.finding = Finding(reason=reason, detail=detail, check=check)


class Transient(NodeUpgradeError):
    """An external system did not answer in time; the same call may succeed later."""


class StepFailed(NodeUpgradeError):
    """A step failed on the node; the run must be rolled back.

    Attributes:
        changed: containers that no longer matched the plan before the step touched them.
    """

    def __init__(self, message: str, *, reason: Reason = Reason.STEP_FAILED, changed: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.changed = changed


class MetadataConflict(StepFailed):
    """Stored container metadata changed since it was read, or has an unknown form; it was not overwritten."""


class ContainerGone(StepFailed):
    """The runtime no longer holds the container."""


class Unimplemented(StepFailed):
    """A server does not implement the method."""


class TimedOut(StepFailed):
    """A program of the node did not end in time."""


class Inconsistent(NodeUpgradeError):
    """Journal and node disagree in a way that no rule covers; automation stops here."""
