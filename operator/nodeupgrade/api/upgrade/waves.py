"""``spec.waves``: groups of nodes that are upgraded one after the other, and their approval."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from nodeupgrade.api.field import DNS_LABEL, Field, Rule, declared, stays_or_not
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.upgrade.nodes import LabelSelector

MOST_WAVES: Final = 20

SLOTS: Final = 100
"""The maximum number of nodes in flight, whatever the spec says: the status lists each, and must stay small."""

REMAINDER: Final = "remainder"
"""Name of the last wave, for nodes that belong to no wave of the spec."""


class ApprovalPolicy(StrEnum):
    """Whether a wave starts automatically or after approval."""

    AUTO = "Auto"
    MANUAL = "Manual"


@declared(
    Rule("has(self.selector) != has(self.size)", "exactly one of selector and size must be set"),
    stays_or_not("selector"),
    stays_or_not("size"),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A group of nodes to finish before the next wave starts; exactly one of selector and size is set."""

    name: Annotated[
        str,
        DNS_LABEL,
        "Name of the wave. Must be a DNS label.",
        Rule(
            f"self != '{REMAINDER}'",
            f"{REMAINDER} is reserved for the wave of nodes that no other wave selects; choose another name",
        ),
    ]
    selector: Annotated[
        LabelSelector | None,
        "Selects the nodes of the wave by label. A node belongs to the first wave that selects it. Mutually "
        "exclusive with size.",
    ] = None
    size: Annotated[
        IntOrPercent | None,
        "How many of the nodes that no earlier wave selects belong to the wave. A percentage is relative to all "
        "nodes of the rollout. Mutually exclusive with selector.",
    ] = None
    max_concurrent: Annotated[
        IntOrPercent | None,
        "Maximum number of nodes of the wave in flight at the same time, in addition to the limit of the strategy. "
        "A percentage is relative to the nodes of the wave and rounds down, but to no less than one.",
        Field(maximum=SLOTS, mutable=True),
    ] = None
    soak: Annotated[
        timedelta, "How long to wait after the last node of the wave before the next wave begins.", Field(mutable=True)
    ] = timedelta()
    approval: Annotated[
        ApprovalPolicy,
        "Auto: the wave begins automatically. Manual: it begins when approvedWaves or the annotation "
        "nodeupgrade.dev/approve contains its name.",
    ] = ApprovalPolicy.AUTO
    failure_threshold: Annotated[
        IntOrPercent | None,
        "Number of failed or rolled-back nodes of the wave at which no further node is started, in addition to the "
        "threshold of the strategy.",
        Field(mutable=True),
    ] = None


WAVES_STAY = Rule(
    "self.map(wave, wave.name) == oldSelf.map(wave, wave.name)",
    "waves cannot be added, removed, renamed or reordered; create another NodeUpgrade",
)

APPROVALS_NAME_WAVES = Rule(
    f"self.approvedWaves.all(name, name == '{REMAINDER}' || self.waves.exists(wave, wave.name == name))",
    f"approvedWaves names a wave that does not exist; write names of spec.waves, or {REMAINDER}",
    advisory=True,
)
