"""``spec.strategy`` and ``spec.timeouts``: how many nodes at a time, and how long that may take. All is mutable."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from nodeupgrade.api.field import LABEL_KEY, Field, Rule, declared
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.upgrade.waves import SLOTS

ONE: Final = IntOrPercent(1)


class TopologyMode(StrEnum):
    """How nodes in flight are distributed over domains."""

    ZONE_BY_ZONE = "ZoneByZone"
    SPREAD = "Spread"


class GrowthType(StrEnum):
    """How the number of slots grows with successful nodes."""

    FIXED = "Fixed"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"


class OnFailure(StrEnum):
    """Whether a rollout pauses or ends when the failure threshold is reached or a health check fails."""

    PAUSE = "Pause"
    ABORT = "Abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Limits per failure domain. Nodes without the label form a domain of their own."""

    key: Annotated[
        str, LABEL_KEY, "Node label whose value is the name of the domain, for example topology.kubernetes.io/zone."
    ]
    max_per_domain: Annotated[
        int, "Maximum number of nodes in flight at the same time in one domain.", Field(minimum=1, maximum=SLOTS)
    ] = 1
    mode: Annotated[
        TopologyMode,
        "ZoneByZone: one domain is completed before the next. Spread: nodes in flight are spread over all domains.",
    ] = TopologyMode.SPREAD


@declared(
    Rule(
        "self.type != 'Exponential' || self.factor >= 2",
        "Exponential growth needs a factor of at least 2",
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Start each wave, and start again after each failure, with one node in flight.

    Slots grow until cap or the strategy's limit is reached.
    """

    type: Annotated[
        GrowthType,
        "Fixed: the limit applies from the beginning. Linear, Exponential: after as many consecutive successes as "
        "there are slots, factor is added to the number of slots, or multiplies it.",
    ] = GrowthType.FIXED
    factor: Annotated[int, "Number of slots to add, or to multiply by.", Field(minimum=1, maximum=SLOTS)] = 2
    cap: Annotated[
        IntOrPercent | None, "Number of slots at which growth ends, in addition to maxConcurrent.", Field(maximum=SLOTS)
    ] = None


@declared(Field(mutable=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Limits on how many nodes are upgraded at the same time, and may fail. All of them can be changed at any time."""

    max_concurrent: Annotated[
        IntOrPercent,
        "Maximum number of nodes in flight at the same time, up to 100. A percentage is relative to the nodes of "
        "the rollout and rounds down, but to no less than one.",
        Field(maximum=SLOTS),
    ] = ONE
    max_unavailable: Annotated[
        IntOrPercent | None,
        "Maximum number of nodes of the rollout that are unavailable at the same time for any reason: in flight, "
        "cordoned, or not Ready. Defaults to 10%, but to no less than one more than maxConcurrent.",
    ] = None
    topology: Topology | None = None
    growth: Growth = field(default_factory=Growth)
    node_interval: Annotated[
        timedelta, "How long to wait after a node has succeeded before the next one is started."
    ] = timedelta()
    failure_threshold: Annotated[
        IntOrPercent, "Number of failed or rolled-back nodes at which no further node is started."
    ] = ONE
    on_threshold: Annotated[
        OnFailure,
        "What happens when the failure threshold is reached. Pause: the rollout waits for a person. Abort: it ends.",
    ] = OnFailure.PAUSE


@declared(Field(mutable=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits."""

    node: Annotated[
        timedelta, "How long the upgrade of one node may take before it is aborted.", Field(positive=True)
    ] = timedelta(minutes=15)
    pod_hold: Annotated[
        timedelta,
        "How long the annotation nodeupgrade.dev/hold of pods may hold their node, counted from when the rollout first "
        "finds it. With 0s, it is ignored.",
    ] = timedelta(hours=1)
    no_progress: Annotated[
        timedelta,
        "How long nothing may change in the rollout before it is reported as stalled. Closed windows, pauses, soaks, "
        "approvals and strategy.nodeInterval do not count.",
        Field(positive=True),
    ] = timedelta(hours=6)
    wave: Annotated[
        timedelta | None, "How long one wave may take. If unset, there is no limit.", Field(positive=True)
    ] = None
    total: Annotated[
        timedelta | None, "How long the whole rollout may take. If unset, there is no limit.", Field(positive=True)
    ] = None
