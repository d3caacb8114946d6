"""NodeUpgradeTask: one node's share of a rollout, the object in which control plane and node side meet.

The control plane writes the spec, the node side writes the status, and nobody sends anybody a message.
A status counts only for the run it names, so what an earlier attempt left behind cannot be mistaken for news.
"""

from dataclasses import dataclass, field

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.task.run_id import RunKind, kind_of
from nodeupgrade.api.task.spec import RunVerdict, TaskAction, TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import NodeName

BASELINE_ANNOTATION = "nodeupgrade.dev/baseline"
UPGRADE_LABEL = "nodeupgrade.dev/upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A NodeUpgradeTask with the marks of the object that carries it.

    Attributes:
        baseline: the node's containers before the run, as ``domain.rollout.inflight.baseline`` writes
            them; kept in an annotation while the node is in flight, so that it outlives the operator.
    """

    name: NodeName
    uid: str
    resource_version: str
    generation: int
    spec: TaskSpec
    status: TaskStatus = field(default_factory=TaskStatus)
    baseline: str = ""

    @property
    def kind(self) -> RunKind:
        """What its run is, or was, for."""
        return kind_of(self.spec.run_id)

    @property
    def open(self) -> bool:
        """Whether the node side may be at work on it, or what it did is still to be judged."""
        return self.spec.action not in {TaskAction.WAIT, TaskAction.RELEASE} and self.verdict is None

    @property
    def verdict(self) -> RunVerdict | None:
        """The verdict on the run that the spec asks for, if it is decided."""
        verdict = self.spec.verdict
        return verdict if verdict is not None and verdict.run_id == self.spec.run_id else None

    @property
    def reported(self) -> TaskStatus:
        """The status of the run that the spec asks for; an older run's status counts as none at all."""
        return self.status if self.status.run_id == self.spec.run_id else TaskStatus(run_id=self.spec.run_id)


def parse_task(body: Json) -> Task:
    """Read a NodeUpgradeTask object.

    Raises:
        MalformedObjectError: It is not one that this version understands.
    """
    metadata = body["metadata"]
    return Task(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=from_json(TaskSpec, body.get("spec"), "spec"),
        status=from_json(TaskStatus, body.get("status", {}), "status"),
        baseline=(metadata.get("annotations") or {}).get(BASELINE_ANNOTATION, ""),
    )
