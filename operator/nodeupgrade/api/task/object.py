"""The NodeUpgradeTask object, the only communication between control plane and node side.

A status counts only for the run that it names, so a status left by an earlier attempt is ignored.
"""

from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.limits import PAST_RUNS_LISTED
from nodeupgrade.api.task.run_id import kind_of
from nodeupgrade.api.task.spec import PastRun, RunVerdict, TaskAction, TaskSpec
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName, RunKind
from nodeupgrade.text import known_time

EPOCH_MARK = "nodeupgrade.dev/epoch"
"""The term of the leader that last claimed or started the node, or freed its slot without a start. Not for people."""
BASELINE_ANNOTATION = "nodeupgrade.dev/baseline"
SETTLED_ANNOTATION = "nodeupgrade.dev/settled"
"""When a write last changed only this: writes that are based on the state before it then fail."""
HELD_SINCE_ANNOTATION = "nodeupgrade.dev/held-since"
"""When the rollout first found that a pod holds the node."""
UPGRADE_LABEL = "nodeupgrade.dev/upgrade"

_IDLE = frozenset({TaskAction.WAIT, TaskAction.RELEASE})

BEFORE_HANDOVER = frozenset({TaskPhase.PENDING, TaskPhase.STAGING, TaskPhase.PRECHECKING})
"""Phases before the agent hands over to the executor."""

_HANDED_OVER = frozenset({TaskPhase.STAGED, TaskPhase.RUNNING, TaskPhase.VERIFYING, TaskPhase.ROLLING_BACK})
"""Phases in which an executor may be at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A NodeUpgradeTask with the metadata that the control plane needs."""

    name: NodeName
    uid: str
    resource_version: str
    generation: int
    spec: TaskSpec
    status: TaskStatus = field(default_factory=TaskStatus)
    # the node's containers before the run, as written by ``fleet.decide.baseline``. Stored in an annotation while the
    # node is in flight, so that a restart of the operator does not lose it.
    baseline: str = ""
    epoch: str = ""  # the epoch annotation
    held_since: datetime | None = None  # as in the annotation

    @property
    def kind(self) -> RunKind:
        """The kind of its run."""
        return kind_of(self.spec.run_id)

    @property
    def open(self) -> bool:
        """Whether the node side may be working on it, or the verdict is pending."""
        return self.spec.action not in _IDLE and self.verdict is None

    @property
    def released(self) -> bool:
        """Whether the node was given back before an upgrade began, or because a person believes it over."""
        upgraded = self.verdict is not None and self.kind is RunKind.UPGRADE
        return self.spec.action is TaskAction.RELEASE and not upgraded

    @property
    def has_reported(self) -> bool:
        """Whether the run that the spec names has ever reported a status."""
        return self.status.run_id == self.spec.run_id

    @property
    def untouched(self) -> bool:
        """Whether nothing can have been handed over to an executor yet.

        An agent attends to an earlier run before it reports anything, and a precheck touches nothing.
        """
        if self.spec.resumes or (self.earlier_may_continue and self.kind is RunKind.UPGRADE):
            return False
        return not self.has_reported or self.reported.phase in BEFORE_HANDOVER

    @property
    def earlier_may_continue(self) -> bool:
        """Whether the last that was heard is of an earlier run that was handed over, and not that it has ended.

        It was given up, for example because a person believed it over; only an agent on the node can tell.
        """
        earlier = self.status.run_id not in {"", self.spec.run_id}
        return earlier and self.status.phase in _HANDED_OVER

    @property
    def verdict(self) -> RunVerdict | None:
        """The verdict on the run that the spec names, if it is decided."""
        verdict = self.spec.verdict
        return verdict if verdict is not None and verdict.run_id == self.spec.run_id else None

    @property
    def reported(self) -> TaskStatus:
        """The status of the run that the spec names; empty if the stored status is of an older run."""
        return self.status if self.has_reported else TaskStatus(run_id=self.spec.run_id)

    def past_runs(self, retry: str) -> tuple[PastRun, ...]:
        """Return the history including its run, at most PAST_RUNS_LISTED entries; prechecks do not count.

        Args:
            retry: The token of the last retry that the rollout has carried out.
        """
        verdict, spec = self.verdict, self.spec
        if verdict is None or self.kind is RunKind.PRECHECK:
            return spec.history
        past = PastRun(
            upgrade=spec.upgrade_ref.name,
            upgrade_uid=spec.upgrade_ref.uid,
            node_uid=spec.node_uid,
            wave=spec.wave,
            retry=retry,
            from_version=spec.from_version,
            to_version=spec.to_version,
            result=verdict.outcome,
            reason=verdict.reason.value,
            restarted=verdict.restarted,
            time=verdict.decided_at,
        )
        return (*spec.history, past)[-PAST_RUNS_LISTED:]

    def is_late(self, now: datetime) -> bool:
        """Report whether the deadline of its run has passed."""
        return self.spec.deadline is not None and now > self.spec.deadline


def parse_task(body: Json) -> Task:
    """Parse a NodeUpgradeTask object.

    Raises:
        MalformedObjectError: This version cannot read the object.
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    return Task(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=from_json(TaskSpec, body.get("spec"), "spec"),
        status=from_json(TaskStatus, body.get("status", {}), "status"),
        baseline=annotations.get(BASELINE_ANNOTATION, ""),
        epoch=annotations.get(EPOCH_MARK, ""),
        held_since=known_time(annotations.get(HELD_SINCE_ANNOTATION, "")),
    )
