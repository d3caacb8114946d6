"""The two kinds, with their columns; those shown without ``-o wide`` must fit into 80 cells, as kubectl drops none."""

from dataclasses import replace

from nodeupgrade.api.crds import Column, Kind
from nodeupgrade.api.field import Rule
from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH
from nodeupgrade.api.schema.derive import Schema, Type, schema_of
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.spec import SPEC
from nodeupgrade.api.upgrade.status import UpgradeStatus

_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _ready(field: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{field}'


UPGRADE_KIND = Kind(
    kind="NodeUpgrade",
    plural="nodeupgrades",
    short="nu",
    description="One rollout of one kubelet version.",
    # The name is the value of a label on its tasks.
    name=Schema(
        type=Type.STRING,
        max_length=LABEL_LENGTH,
        min_length=1,
        pattern="[a-z0-9]([-a-z0-9.]*[a-z0-9])?",
        expected=f"a name of at most {LABEL_LENGTH} lower-case letters, digits, hyphens and dots",
    ),
    spec=SPEC,
    status=schema_of(UpgradeStatus),
    columns=(
        Column("Version", ".spec.version"),
        Column("Phase", ".status.phase"),
        Column("Progress", ".status.progress"),
        Column("Reason", _ready("reason")),
        Column("Failed", ".status.failed", "integer", "Nodes that failed or were rolled back", wide=True),
        Column("Restarts", ".status.containers.restarted", "integer", "Containers restarted", wide=True),
        Column("Wave", ".status.currentWave.name", wide=True),
        replace(_AGE, wide=True),
        Column("Ready", _ready("status"), wide=True),
        Column("Action", ".spec.action", wide=True),
        Column("Skipped", ".status.counts.skipped", "integer", wide=True),
        Column("Started", ".status.startedAt", "date", wide=True),
        # Not a date: kubectl shows dates as an age, and future ones as <invalid>.
        Column("Next Window", ".status.nextWindow", wide=True),
        Column("Message", _ready("message"), wide=True),
    ),
    comment=(
        "One rollout of one kubelet version. The API server rejects changes of immutable fields (CEL, Kubernetes 1.25",
        "and later); the control plane checks everything again and reports it in the condition Accepted.",
    ),
)

TASK_KIND = Kind(
    kind="NodeUpgradeTask",
    plural="nodeupgradetasks",
    short="nut",
    description="The upgrade of one node. It has the name of the node.",
    name=Schema(type=Type.STRING, max_length=NAME_LENGTH),
    spec=schema_of(TaskSpec),
    status=schema_of(TaskStatus),
    columns=(
        Column("Upgrade", ".spec.upgradeRef.name"),
        Column("Wave", ".spec.wave", wide=True),
        Column("Phase", ".status.phase"),
        Column("From", ".spec.fromVersion", wide=True),
        Column("To", ".spec.toVersion"),
        Column("Restarted", ".status.containers.restarted", "integer"),
        Column("Down(s)", ".status.kubelet.downSeconds", "number", "Seconds without a kubelet", wide=True),
        _AGE,
        Column("Order", ".spec.order", "integer", wide=True),
        Column("Action", ".spec.action", wide=True),
        Column("Run", ".spec.runID", wide=True),
        Column("Verdict", ".spec.verdict.outcome", wide=True),
        Column("Own Cordon", ".spec.cordon.byUs", "boolean", "Cordoned for the run", wide=True),
        Column(
            "Would Restart",
            ".status.preview.wouldRestart",
            "integer",
            "Containers that a plain kubelet swap would restart",
            wide=True,
        ),
        Column("Reason", ".status.reason", wide=True),
        Column("Message", ".status.message", wide=True),
        Column("Check", ".status.hazards[0].check", "string", "The check that found the first hazard", wide=True),
        Column("Hazard", ".status.hazards[0].detail", "string", "The first hazard", wide=True),
    ),
    rules=(Rule("self.metadata.name == self.spec.nodeName", "a NodeUpgradeTask is named after its node"),),
    comment=(
        "One node's share of a rollout. The control plane writes the spec, the node side writes the status.",
        "The name is the node's name: creating or claiming the object is the lock on the node.",
    ),
)

KINDS = (UPGRADE_KIND, TASK_KIND)
