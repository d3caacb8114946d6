"""``spec.strategy`` and ``spec.timeouts``: how many nodes at a time, and how long that may take. All is mutable."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from nodeupgrade.api.field import LABEL_KEY, Field, Rule
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.upgrade.waves import SLOTS

ONE: Final = IntOrPercent(1)


class TopologyMode(StrEnum):
    """Whether to finish one domain before the next, or to spread nodes in flight over all domains."""

    ZONE_BY_ZONE = "ZoneByZone"
    SPREAD = "Spread"


class GrowthType(StrEnum):
    """How the number of slots grows from one to its limit with successful nodes."""

    FIXED = "Fixed"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"


class ThresholdPolicy(StrEnum):
    """What to do when the failure threshold is reached: wait for a person, or end."""

    PAUSE = "Pause"
    ABORT = "Abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Limits per failure domain, which is the value of a node label; nodes without the label form a domain."""

    SCHEMA: ClassVar = Field("Limits by failure domain; nodes without the label form a domain of their own.")

    key: Annotated[
        str,
        LABEL_KEY,
        Field("The node label whose value names the domain, for example topology.kubernetes.io/zone."),
    ]
    max_per_domain: Annotated[
        int, Field("Nodes in flight at the same time in one domain.", minimum=1, maximum=SLOTS, defaulted=True)
    ] = 1
    mode: Annotated[
        TopologyMode,
        Field("Whether one domain is finished before the next, or all are worked on a little.", defaulted=True),
    ] = TopologyMode.SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How slots grow: each wave starts with one node in flight, and so does the rollout after each failure.

    A round is as many successes in a row as there are slots. After each round, ``factor`` is added to the slots
    (Linear) or multiplies them (Exponential), until ``cap`` or the strategy's limit is reached.
    """

    SCHEMA: ClassVar = Field(
        "Begin each wave, and begin anew after each failure, with one node in flight.",
        defaulted=True,
        rules=(
            Rule(
                "self.type != 'Exponential' || self.factor >= 2",
                "Exponential growth by a factor of 1 does not grow; write a factor from 2",
                lambda growth: growth["type"] != GrowthType.EXPONENTIAL or growth["factor"] >= 2,
            ),
        ),
    )

    type: Annotated[
        GrowthType,
        Field(
            "Fixed: the limit at once. Linear, Exponential: after as many successes in a row as there are slots, slots "
            "are added or multiplied by factor.",
            defaulted=True,
        ),
    ] = GrowthType.FIXED
    factor: Annotated[int, Field("Slots to add, or to multiply by.", minimum=1, maximum=SLOTS, defaulted=True)] = 2
    cap: Annotated[IntOrPercent | None, Field("Where growth ends, beside maxConcurrent.", maximum=SLOTS)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Budgets: limits on nodes in flight, unavailable and failed."""

    SCHEMA: ClassVar = Field("Budgets. All of them may be changed at any time.", defaulted=True, mutable=True)

    max_concurrent: Annotated[
        IntOrPercent,
        Field(
            "Nodes in flight at the same time, at most 100. A percentage is of the rollout's nodes and rounds down, to "
            "at least one.",
            maximum=SLOTS,
            defaulted=True,
        ),
    ] = ONE
    max_unavailable: Annotated[
        IntOrPercent | None,
        Field(
            "Nodes of the rollout that may be unavailable at the same time for whatever reason: in flight, cordoned or "
            "not Ready. Unset: 10%, and at least one more than maxConcurrent."
        ),
    ] = None
    topology: Topology | None = None
    growth: Growth = field(default_factory=Growth)
    node_interval: Annotated[timedelta, Field("Rest after a node's success.", defaulted=True)] = timedelta()
    failure_threshold: Annotated[
        IntOrPercent,
        Field("Failed or rolled-back nodes at which no further node is started.", defaulted=True),
    ] = ONE
    on_threshold: Annotated[
        ThresholdPolicy, Field("Whether the rollout then waits for a human, or ends.", defaulted=True)
    ] = ThresholdPolicy.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one node, one wave and the whole rollout may take; None means no limit."""

    SCHEMA: ClassVar = Field("How long things may take.", defaulted=True, mutable=True)

    node: Annotated[timedelta, Field("One node, before its run is aborted.", positive=True, defaulted=True)] = (
        timedelta(minutes=15)
    )
    wave: Annotated[timedelta | None, Field("One wave; unset: for ever.", positive=True)] = None
    total: Annotated[timedelta | None, Field("The whole rollout; unset: for ever.", positive=True)] = None
