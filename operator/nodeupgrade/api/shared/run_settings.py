"""Settings for a node's run that NodeUpgrade and NodeUpgradeTask share."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from nodeupgrade.api.field import SET, Field
from nodeupgrade.api.limits import CHECK_LENGTH


class FlagPolicy(StrEnum):
    """What to do about flags of the running kubelet that the new binary does not know."""

    REFUSE = "Refuse"
    STRIP = "Strip"


class DriftPolicy(StrEnum):
    """What to do about a node whose kubelet would start with another configuration than it runs with."""

    REFUSE = "Refuse"
    ACCEPT = "Accept"
    """The configuration on disk is meant for the new kubelet; after a rollback, the old one starts with it too."""


class PackagePolicy(StrEnum):
    """What to do about a kubelet that belongs to a package which the package manager does not hold."""

    REFUSE = "Refuse"
    HOLD = "Hold"
    """Hold it, for the run and afterwards; a rollback takes the hold back. dpkg only."""
    IGNORE = "Ignore"
    """Upgrade it with a warning; somebody else sees to the package."""


class HashMode(StrEnum):
    """Whether to rewrite stored hashes, or to refuse nodes where any would have to be rewritten."""

    REWRITE = "Rewrite"
    ASSERT_UNCHANGED = "AssertUnchanged"


class GuardPolicy(StrEnum):
    """What to do about pods that a newly started kubelet would report unready before it has probed them."""

    AUTO = "Auto"
    """Guard them if the API server supports it; otherwise go on, and report which pods became unready."""
    REQUIRE = "Require"
    """Upgrade no node that cannot be guarded."""
    OFF = "Off"


class ShieldPolicy(StrEnum):
    """What to do about calls with which a kubelet would end containers that ran before its start."""

    AUTO = "Auto"
    """Refuse them during the upgrade where the runtime allows it; otherwise go on with a warning."""
    REQUIRE = "Require"
    """Upgrade no node on which they cannot be refused."""
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How the kubelet runs on the node, and what may be changed about it."""

    SCHEMA: ClassVar = Field("How the kubelet is run on the nodes, and what may be changed about it.", defaulted=True)

    unit: Annotated[
        str,
        Field(
            "The kubelet's systemd unit.",
            max_length=255,
            pattern=r"[A-Za-z0-9:_.@-]+\.service",
            expected="the name of a service unit such as kubelet.service",
            defaulted=True,
        ),
    ] = "kubelet.service"
    flag_policy: Annotated[
        FlagPolicy,
        Field("Whether flags that the new kubelet does not know forbid the upgrade or are removed.", defaulted=True),
    ] = FlagPolicy.REFUSE
    remove_flags: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=128)], ...],
        SET,
        Field("Flags to leave out, whether the new kubelet knows them or not.", max_items=64),
    ] = ()
    configuration_drift: Annotated[
        DriftPolicy,
        Field(
            "Whether a node whose kubelet would start with another configuration than it runs with is refused, or what "
            "is on its disk is meant for the new kubelet (Accept); the way back then starts the old one with it too.",
            defaulted=True,
        ),
    ] = DriftPolicy.REFUSE
    package: Annotated[
        PackagePolicy,
        Field(
            "Whether a node is refused if its kubelet belongs to a package (dpkg, rpm) that is not held, so that the "
            "package's next upgrade would put another kubelet there. Hold holds a package of dpkg before the kubelet "
            "stops, and leaves it held; Ignore upgrades the node with a warning.",
            defaulted=True,
        ),
    ] = PackagePolicy.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSettings:
    """Which findings of checks do not refuse a node."""

    SCHEMA: ClassVar = Field("What is done about findings on the nodes before anything is touched.", defaulted=True)

    accept: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    max_length=CHECK_LENGTH,
                    pattern="[a-z][a-z0-9_]*",
                    expected="the name of a check such as placements_are_met (docs/preflight.md)",
                ),
            ],
            ...,
        ],
        SET,
        Field(
            "Names of checks whose findings are warnings for this NodeUpgrade and refuse no node.",
            max_items=16,
            defaulted=True,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """How long the node is watched and may be without a kubelet, and what protects its pods meanwhile."""

    SCHEMA: ClassVar = Field("When a node counts as upgraded, and when it is taken back.", defaulted=True)

    settle: Annotated[
        timedelta, Field("How long the node is watched after the swap.", defaulted=True, default="60s")
    ] = timedelta(seconds=60)
    kubelet_down_budget: Annotated[
        timedelta,
        Field("How long the node may be without a kubelet before everything is undone.", positive=True, defaulted=True),
    ] = timedelta(seconds=30)
    node_ready_timeout: Annotated[
        timedelta, Field("How long the node may take to be Ready again.", positive=True, defaulted=True, default="60s")
    ] = timedelta(seconds=60)
    readiness_guard: Annotated[
        GuardPolicy,
        Field(
            "Whether pods stay Ready until the new kubelet has probed them. Auto does what the API server can; "
            "Require touches no node without it.",
            defaulted=True,
        ),
    ] = GuardPolicy.AUTO
    shield: Annotated[
        ShieldPolicy,
        Field(
            "Whether the runtime refuses to end containers that ran before, until the new kubelet is verified. Auto "
            "does what the runtime can; Require touches no node without it.",
            defaulted=True,
        ),
    ] = ShieldPolicy.AUTO
