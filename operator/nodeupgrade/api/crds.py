"""The two kinds of objects, with the columns that ``kubectl get`` shows: without ``-o wide``, as many as 80 cells hold.

kubectl drops no columns by itself.
"""

from dataclasses import replace

from nodeupgrade.api.field import Rule
from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH
from nodeupgrade.api.schema.derive import StringSchema, schema_of
from nodeupgrade.api.schema.openapi import Column, Kind
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.spec import SPEC
from nodeupgrade.api.upgrade.status import UpgradeStatus

_AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")


def _ready(field: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{field}'


UPGRADE_KIND = Kind(
    kind="NodeUpgrade",
    plural="nodeupgrades",
    short="nu",
    description="One rollout of one kubelet version.",
    # The name is the value of a label on its tasks.
    name=StringSchema(
        max_length=LABEL_LENGTH,
        min_length=1,
        pattern="[a-z0-9]([-a-z0-9.]*[a-z0-9])?",
        expected=f"a name of at most {LABEL_LENGTH} lower-case letters, digits, hyphens and dots",
    ),
    spec=SPEC,
    status=schema_of(UpgradeStatus),
    columns=(
        Column(name="Version", path=".spec.version"),
        Column(name="Phase", path=".status.phase"),
        Column(name="Progress", path=".status.progress"),
        Column(name="Reason", path=_ready("reason")),
        Column(
            name="Failed",
            path=".status.failed",
            type="integer",
            description="Nodes that failed or were rolled back",
            wide=True,
        ),
        Column(
            name="Restarts",
            path=".status.containers.restarted",
            type="integer",
            description="Containers restarted",
            wide=True,
        ),
        Column(name="Wave", path=".status.currentWave.name", wide=True),
        replace(_AGE, wide=True),
        Column(name="Ready", path=_ready("status"), wide=True),
        Column(name="Action", path=".spec.action", wide=True),
        Column(name="Skipped", path=".status.counts.skipped", type="integer", wide=True),
        Column(name="Started", path=".status.startedAt", type="date", wide=True),
        # Not a date: kubectl shows dates as an age, and future ones as <invalid>.
        Column(name="Next Window", path=".status.nextWindow", wide=True),
        Column(name="Message", path=_ready("message"), wide=True),
    ),
    comment=(
        "One rollout of one kubelet version. What may not change is checked by the API server (CEL, Kubernetes 1.25",
        "and later); the control plane checks everything again and reports it in the condition Accepted.",
    ),
)

TASK_KIND = Kind(
    kind="NodeUpgradeTask",
    plural="nodeupgradetasks",
    short="nut",
    description="The upgrade of one node. It has the name of the node.",
    name=StringSchema(max_length=NAME_LENGTH),
    spec=schema_of(TaskSpec),
    status=schema_of(TaskStatus),
    columns=(
        Column(name="Upgrade", path=".spec.upgradeRef.name"),
        Column(name="Wave", path=".spec.wave", wide=True),
        Column(name="Phase", path=".status.phase"),
        Column(name="From", path=".spec.fromVersion", wide=True),
        Column(name="To", path=".spec.toVersion"),
        Column(name="Restarted", path=".status.containers.restarted", type="integer"),
        Column(
            name="Down(s)",
            path=".status.kubelet.downSeconds",
            type="number",
            description="Seconds without a kubelet",
            wide=True,
        ),
        _AGE,
        Column(name="Order", path=".spec.order", type="integer", wide=True),
        Column(name="Action", path=".spec.action", wide=True),
        Column(name="Run", path=".spec.runID", wide=True),
        Column(name="Verdict", path=".spec.verdict.outcome", wide=True),
        Column(
            name="Own Cordon", path=".spec.cordon.byUs", type="boolean", description="Cordoned for the run", wide=True
        ),
        Column(
            name="Would Restart",
            path=".status.preview.wouldRestart",
            type="integer",
            description="Containers that a plain kubelet swap would restart",
            wide=True,
        ),
        Column(name="Reason", path=".status.reason", wide=True),
        Column(name="Message", path=".status.message", wide=True),
        Column(name="Check", path=".status.hazards[0].check", description="What found the first hazard", wide=True),
        Column(name="Hazard", path=".status.hazards[0].detail", description="The first hazard", wide=True),
    ),
    rules=(
        Rule(
            "self.metadata.name == self.spec.nodeName",
            "a NodeUpgradeTask is named after its node",
        ),
    ),
    comment=(
        "One node's share of a rollout. The control plane writes the spec, the node side writes the status.",
        "The name is the node's name: creating or claiming the object is the lock on the node.",
    ),
)

KINDS = (UPGRADE_KIND, TASK_KIND)
