"""The NodeUpgrade object: one rollout, with a person's spec and the status that the control plane reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus

FINALIZER = "nodeupgrade.dev/finish-in-flight"
PAUSE_ANNOTATION = "nodeupgrade.dev/pause"
"""``true`` pauses the rollout: an emergency brake that, unlike spec.action, needs no commit in a GitOps repository."""
APPROVE_ANNOTATION = "nodeupgrade.dev/approve"
"""Names of approved waves, separated by commas, in addition to spec.approvedWaves."""
RETRY_ANNOTATION = "nodeupgrade.dev/retry"
"""Any token. For each new token, nodes that failed or were refused are retried once."""
ABANDON_ANNOTATION = "nodeupgrade.dev/abandon"
"""UID of the NodeUpgrade, to delete it although nodes are in flight; their runs continue to the end."""
NOTIFIED_PREFIX = "notified.nodeupgrade.dev/"
"""Prefix of annotations that record the latest notice that each receiver has got."""
EPOCH_MARK = "nodeupgrade.dev/epoch"
"""Annotation with the term of the leader that wrote last, see ``rollout_controller``. Not for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A NodeUpgrade object."""

    name: str
    uid: str
    resource_version: str
    generation: int
    spec: UpgradeSpec | None  # None if it is invalid
    spec_digest: str = ""  # digest of its frozen part, see ``api.upgrade.frozen``; empty if the spec is invalid
    problem: str = ""  # why the spec is invalid; empty if it is valid
    status: UpgradeStatus = field(default_factory=UpgradeStatus)
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    created_at: datetime | None = None
    braked: bool = False  # whether the pause annotation is set
    # waves named by the approve annotation, each with the field manager that wrote the annotation
    approvals: Mapping[str, str] = field(default_factory=dict)
    retry: str = ""  # token of the retry annotation
    abandoned: bool = False  # whether the abandon annotation asks for it, with the UID
    notified: Mapping[str, str] = field(default_factory=dict)  # ID of the latest notice that was delivered, by receiver
    epoch: str = ""  # value of the epoch annotation

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer holds back deletion."""
        return FINALIZER in self.finalizers

    @property
    def finished(self) -> bool:
        """Whether the rollout is over; its status no longer changes then."""
        return self.status.completed_at is not None

    @property
    def retry_asked(self) -> bool:
        """Whether a retry is requested that has not been handled."""
        return self.retry not in {"", self.status.last_handled_retry}

    @property
    def active(self) -> bool:
        """Whether it may still touch nodes."""
        return not self.finished or bool(self.status.in_flight)
