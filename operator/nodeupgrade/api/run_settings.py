"""How a node's run is to be done: what NodeUpgrade and task say about it in the same words."""

from dataclasses import dataclass
from enum import StrEnum


class FlagPolicy(StrEnum):
    """What to do about kubelet flags in use that the new binary does not know."""

    REFUSE = "Refuse"
    STRIP = "Strip"


class DriftPolicy(StrEnum):
    """What to do about a node whose kubelet would not start as it runs now."""

    REFUSE = "Refuse"
    ACCEPT = "Accept"
    """What is on the node's disk is meant for the new kubelet; going back means starting the old one with it too."""


class HashMode(StrEnum):
    """Whether stored hashes are rewritten, or a node where any would have to be is refused."""

    REWRITE = "Rewrite"
    ASSERT_UNCHANGED = "AssertUnchanged"


class GuardPolicy(StrEnum):
    """What to do about pods that a fresh kubelet would report unready before it has probed them."""

    AUTO = "Auto"
    """Guard them where the API server can; elsewhere go on, and tell which pods were reported unready."""
    REQUIRE = "Require"
    """Touch no node that cannot be guarded."""
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How the kubelet is run on the node, and what may be changed about it."""

    unit: str = "kubelet.service"
    flag_policy: FlagPolicy = FlagPolicy.REFUSE
    remove_flags: tuple[str, ...] = ()
    configuration_drift: DriftPolicy = DriftPolicy.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """Seconds to watch the node after the swap, seconds it may be without a kubelet, and what pods' clients notice."""

    settle_seconds: int = 60
    kubelet_down_budget_seconds: int = 30
    node_ready_timeout_seconds: int = 60
    readiness_guard: GuardPolicy = GuardPolicy.AUTO
