"""NodeUpgrade: one rollout, as a person wrote it and as the control plane reports on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus

FINALIZER = "nodeupgrade.dev/finish-in-flight"
PAUSE_ANNOTATION = "nodeupgrade.dev/pause"
"""``true``: emergency brake beside spec.action; it needs no commit to wherever the spec is kept."""
APPROVE_ANNOTATION = "nodeupgrade.dev/approve"
"""Names of waves, separated by commas, that may begin; beside spec.approvedWaves."""
RETRY_ANNOTATION = "nodeupgrade.dev/retry"
"""Any token: nodes that failed or were refused are tried once more for each new token."""
ABANDON_ANNOTATION = "nodeupgrade.dev/abandon"
"""UID of the NodeUpgrade: let it go although nodes are in flight; what runs on them goes on to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A NodeUpgrade object.

    Attributes:
        spec: None when it is not valid.
        spec_digest: of what may not change in it, as ``domain.frozen`` counts; empty when it is not valid.
        problem: why it is not valid; empty when it is.
        braked: whether the pause annotation is set.
        approvals: waves named by the approve annotation, and the field manager that wrote it.
        retry: token of the retry annotation.
        abandon: value of the abandon annotation.
    """

    name: str
    uid: str
    resource_version: str
    generation: int
    spec: UpgradeSpec | None
    spec_digest: str = ""
    problem: str = ""
    status: UpgradeStatus = field(default_factory=UpgradeStatus)
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    created_at: datetime | None = None
    braked: bool = False
    approvals: Mapping[str, str] = field(default_factory=dict)
    retry: str = ""
    abandon: str = ""

    @property
    def has_finalizer(self) -> bool:
        """Whether deletion waits for us."""
        return FINALIZER in self.finalizers

    @property
    def finished(self) -> bool:
        """Whether the rollout ended; what it reports is then frozen."""
        return self.status.completed_at is not None

    @property
    def active(self) -> bool:
        """Whether it may still touch nodes."""
        return not self.finished or bool(self.status.in_flight)
