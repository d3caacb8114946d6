"""Settings for a node's run that NodeUpgrade and NodeUpgradeTask share."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, TypeAlias

from nodeupgrade.api.field import SET, Field, Rule
from nodeupgrade.api.limits import CHECK_LENGTH
from nodeupgrade.kubelethash import NEWEST_MINOR, OLDEST_MINOR, known_kubelets


class FlagPolicy(StrEnum):
    """What to do about flags of the running kubelet that the new binary does not know."""

    REFUSE = "Refuse"
    STRIP = "Strip"


class DriftPolicy(StrEnum):
    """What to do about a node whose kubelet would start with another configuration than it runs with."""

    REFUSE = "Refuse"
    ACCEPT = "Accept"


class PackagePolicy(StrEnum):
    """What to do about a kubelet that belongs to a package which the package manager does not hold."""

    REFUSE = "Refuse"
    HOLD = "Hold"
    """Hold it, for the run and afterwards; a rollback removes the hold. dpkg only."""
    IGNORE = "Ignore"


class RejectedPod(StrEnum):
    """A condition of pods that some vendors' kubelets do not admit, and so end, when they start."""

    NOT_READY = "NotReady"
    RESTARTED = "Restarted"
    RESTARTED_AND_NOT_READY = "RestartedAndNotReady"


class StaticPodPolicy(StrEnum):
    """What to do about static pods, whose UID differs between minor versions."""

    PIN = "Pin"
    RECREATE = "Recreate"


class HashMode(StrEnum):
    """Whether to rewrite stored hashes, or to refuse nodes where any would have to be rewritten."""

    REWRITE = "Rewrite"
    ASSERT_UNCHANGED = "AssertUnchanged"


KubeletMinor: TypeAlias = Annotated[
    str,
    Field(
        max_length=8,
        pattern=rf"1\.({'|'.join(str(kubelet.minor) for kubelet in known_kubelets())})",
        expected=f"a minor version of Kubernetes from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, such as 1.12",
    ),
]
MOST_ALSO_ACCEPTED = 8


class GuardPolicy(StrEnum):
    """Whether to prevent pods from being reported unready before a new kubelet has probed them."""

    AUTO = "Auto"
    """Guard them if the API server supports it; otherwise continue, and report pods that became unready."""
    REQUIRE = "Require"
    OFF = "Off"


class ShieldPolicy(StrEnum):
    """What to do about calls with which a kubelet would end containers that ran before its start."""

    AUTO = "Auto"
    """Refuse them during the upgrade where the runtime allows it; otherwise continue with a warning."""
    REQUIRE = "Require"
    OFF = "Off"


class SocketMountPolicy(StrEnum):
    """What to do about pods that have mounted a socket of the runtime as a file."""

    WARN = "Warn"
    REFUSE = "Refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How the kubelet runs on the nodes, and what may be changed about it."""

    unit: Annotated[
        str,
        "Name of the kubelet's systemd unit.",
        Field(
            max_length=255,
            pattern=r"[A-Za-z0-9:_.@-]+\.service",
            expected="the name of a service unit such as kubelet.service",
        ),
    ] = "kubelet.service"
    flag_policy: Annotated[
        FlagPolicy,
        "What to do about flags that the new kubelet does not accept. Refuse: the node is refused. Strip: they are "
        "removed. Flags that have no effect in the new version are always removed.",
    ] = FlagPolicy.REFUSE
    remove_flags: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=128)], ...],
        SET,
        "Flags to remove from the kubelet's command line, whether the new kubelet accepts them or not.",
        Field(max_items=64, defaulted=False),
    ] = ()
    also_rejects: Annotated[
        tuple[RejectedPod, ...],
        SET,
        "Pods that your vendor's kubelets do not admit when they start, besides those that upstream kubelets do not "
        "admit. A node with such a pod is refused. NotReady: the pod is not Ready. Restarted: one of its containers "
        "was restarted. RestartedAndNotReady: both.",
        Field(max_items=3, defaulted=False),
    ] = ()
    configuration_drift: Annotated[
        DriftPolicy,
        "What to do about a node whose kubelet configuration on disk differs from the running one. Refuse: the node is "
        "refused. Accept: the new kubelet starts with the configuration on disk, and so does the old one after a "
        "rollback.",
    ] = DriftPolicy.REFUSE
    static_pods: Annotated[
        StaticPodPolicy,
        "What to do about static pods, whose UID differs between minor versions. Pin: metadata.uid is added to their "
        "manifests, so that they keep running; with kubelets from 1.31 on, most edits have no effect until it is "
        "removed. Recreate: metadata.uid is removed, and the new kubelet replaces these pods, including the control "
        "plane.",
    ] = StaticPodPolicy.PIN
    package: Annotated[
        PackagePolicy,
        "What to do about a kubelet from a package (dpkg, rpm) that is not held, since the next upgrade of the package "
        "would replace the kubelet. Refuse: the node is refused. Hold: a dpkg package is held before the kubelet "
        "stops, and stays held. Ignore: the node is upgraded with a warning.",
    ] = PackagePolicy.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSettings:
    """How to treat the findings of checks before anything on a node is touched."""

    accept: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    max_length=CHECK_LENGTH,
                    pattern="[a-z][a-z0-9_]*",
                    expected="the name of a check such as placements_are_met (docs/generated/preflight.md)",
                ),
            ],
            ...,
        ],
        SET,
        "Names of checks whose findings are only warnings for this NodeUpgrade and do not refuse a node.",
        Field(max_items=16),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """When a node counts as upgraded, and when it is rolled back."""

    settle: Annotated[
        timedelta,
        "How long the node is observed, once the API server shows the new kubelet, before the upgrade is committed.",
        Field(default="60s"),
    ] = timedelta(seconds=60)
    kubelet_down_budget: Annotated[
        timedelta, "How long the node may be without a kubelet before it is rolled back.", Field(positive=True)
    ] = timedelta(seconds=30)
    node_ready_timeout: Annotated[
        timedelta,
        "How long the node may take to become Ready again, and the API server to show its new kubelet.",
        Field(positive=True, default="60s"),
    ] = timedelta(seconds=60)
    readiness_guard: Annotated[
        GuardPolicy,
        "Whether pods are kept Ready until the new kubelet has probed them. Auto: where the API server supports it."
        " Require: nodes where that is not possible are refused. Off: never.",
    ] = GuardPolicy.AUTO
    shield: Annotated[
        ShieldPolicy,
        "Whether the container runtime is prevented from ending containers that ran before, until the new kubelet "
        "is verified. Auto: where the runtime allows it. Require: nodes where that is not possible are refused. "
        "Off: never.",
    ] = ShieldPolicy.AUTO
    socket_mounts: Annotated[
        SocketMountPolicy,
        "What to do about pods that mount the socket of the container runtime as a file, and so lose the connection "
        "when the runtime restarts. Warn: they are listed, and must be restarted afterwards. Refuse: the node is "
        "refused.",
    ] = SocketMountPolicy.WARN
    shield_hold: Annotated[
        timedelta,
        "How long after a rollback the shield prevents the old kubelet from ending containers, such as one that fails "
        "its liveness probe. Containers that it ends afterwards count as restarted. At most 24h.",
        Rule("duration(self) <= duration('24h')", "it must be at most 24h, for example 10m"),
    ] = timedelta(minutes=10)
