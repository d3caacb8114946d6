"""The spec of a NodeUpgrade: what a person requests. Each field is declared once, with all of its constraints."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from nodeupgrade.api.field import SET, Field, Rule, additions_only, declared
from nodeupgrade.api.limits import LABEL_LENGTH
from nodeupgrade.api.node_files import FILES, NEEDS_IMAGE, NodeFile
from nodeupgrade.api.run_settings import (
    MOST_ALSO_ACCEPTED,
    HashMode,
    KubeletMinor,
    KubeletSettings,
    PreflightSettings,
    VerifySettings,
)
from nodeupgrade.api.schema.derive import frozen, schema_of
from nodeupgrade.api.upgrade.artifact import Artifact
from nodeupgrade.api.upgrade.health import HEALTH_CHECKS, HealthCheck
from nodeupgrade.api.upgrade.hooks import Hooks
from nodeupgrade.api.upgrade.nodes import NodeSelection
from nodeupgrade.api.upgrade.strategy import Strategy, Timeouts
from nodeupgrade.api.upgrade.waves import APPROVALS_NAME_WAVES, MOST_WAVES, WAVES_STAY, Wave
from nodeupgrade.api.upgrade.windows import Blackout, Window
from nodeupgrade.api.values import RunKind


class SkewPolicy(StrEnum):
    """Whether to refuse a target outside the API server's supported kubelet versions, or only to warn."""

    ENFORCE = "Enforce"
    WARN = "Warn"


class OverlapPolicy(StrEnum):
    """What to do if an older rollout holds the same nodes: wait for it, or stall."""

    QUEUE = "Queue"
    FAIL = "Fail"


class DeletionPolicy(StrEnum):
    """What to do with nodes in flight when the NodeUpgrade is deleted."""

    FINISH_IN_FLIGHT = "FinishInFlight"
    ROLLBACK_IN_FLIGHT = "RollbackInFlight"


class RolloutAction(StrEnum):
    """Whether the rollout only reports, runs, starts no further node, or ends."""

    PLAN = "Plan"
    RUN = "Run"
    PAUSE = "Pause"
    ABORT = "Abort"

    @property
    def run_kind(self) -> RunKind:
        """What nodes take slots for under this action."""
        return RunKind.PRECHECK if self is RolloutAction.PLAN else RunKind.UPGRADE


ACTION_STEPS = {
    RolloutAction.PLAN: (RolloutAction.RUN, RolloutAction.ABORT),
    RolloutAction.RUN: (RolloutAction.PAUSE, RolloutAction.ABORT),
    RolloutAction.PAUSE: (RolloutAction.RUN, RolloutAction.ABORT),
    RolloutAction.ABORT: (),
}
"""Which action may follow which."""


def _action_rule() -> Rule:
    steps = (
        f"(oldSelf == '{before}' && self in {[after.value for after in following]})"
        for before, following in ACTION_STEPS.items()
        if following
    )
    return Rule(
        " || ".join(("self == oldSelf", *steps)),
        "Plan can change to Run or Abort, Run to Pause or Abort, Pause to Run or Abort, and Abort is final; "
        "create another NodeUpgrade to start again",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSettings:
    """How to treat the hashes that kubelets store with containers."""

    mode: Annotated[
        HashMode,
        "Rewrite: stored hashes are rewritten where necessary. AssertUnchanged: a node is refused if any of its stored "
        "hashes would have to be rewritten.",
    ] = HashMode.REWRITE
    also_accepted: Annotated[
        tuple[KubeletMinor, ...],
        SET,
        "Minor versions, such as 1.12, whose hashes the nodes' kubelets are built to accept besides their own. A "
        "running container may have the hash of any of them. Upstream kubelets accept none.",
        Field(max_items=MOST_ALSO_ACCEPTED),
    ] = ()


_VersionPrefix = Annotated[
    str,
    Field(max_length=16, pattern=r"v1\.[0-9]{1,4}(\.[0-9]{1,4})?", expected="a version or minor version such as v1.30"),
]


@declared(APPROVALS_NAME_WAVES, NEEDS_IMAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSpec:
    """The desired rollout. Each object is one rollout; to upgrade to another version, create another object."""

    version: Annotated[
        str,
        "Kubelet version to upgrade the nodes to, for example v1.33.13.",
        Field(
            max_length=LABEL_LENGTH,
            pattern=r"v1\.[0-9]{1,4}\.[0-9]{1,4}([-+][0-9A-Za-z.-]+)?",
            expected="a version such as v1.33.13",
        ),
    ]
    artifact: Artifact
    nodes: NodeSelection
    files: Annotated[tuple[NodeFile, ...], FILES] = ()
    allow_downgrade: Annotated[bool, "Whether nodes that run a newer kubelet may be downgraded."] = False
    from_versions: Annotated[
        tuple[_VersionPrefix, ...],
        SET,
        "Upgrade only nodes that run one of these versions: minor versions such as v1.30, or exact ones such as "
        "v1.30.4. If empty, nodes of any version are upgraded.",
        Field(max_items=32),
    ] = ()
    skew_policy: Annotated[
        SkewPolicy,
        "Whether a version outside the supported skew of the API server is refused (Enforce) or only reported (Warn).",
    ] = SkewPolicy.ENFORCE
    hash: HashSettings = field(default_factory=HashSettings)
    waves: Annotated[
        tuple[Wave, ...],
        "Groups of nodes that are upgraded one after the other. Nodes that no wave selects form a last wave named "
        "remainder. Only maxConcurrent, soak and failureThreshold can be changed.",
        Field(max_items=MOST_WAVES, list_map_key="name"),
        WAVES_STAY,
    ] = ()
    strategy: Strategy = field(default_factory=Strategy)
    windows: Annotated[
        tuple[Window, ...],
        "Maintenance windows: nodes are started only during a window, except during blackouts. If empty, nodes are "
        "started at any time. Nodes in flight are always finished.",
        Field(max_items=16, mutable=True),
    ] = ()
    blackouts: Annotated[
        tuple[Blackout, ...],
        "Periods during which no node is started, even during a window.",
        Field(max_items=16, mutable=True),
    ] = ()
    health_checks: Annotated[tuple[HealthCheck, ...], HEALTH_CHECKS] = ()
    hooks: Hooks = field(default_factory=Hooks)
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    preflight: PreflightSettings = field(default_factory=PreflightSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    timeouts: Timeouts = field(default_factory=Timeouts)
    overlap_policy: Annotated[
        OverlapPolicy,
        "What to do when an older rollout selects the same nodes. Queue: wait for it. Fail: stall until a person "
        "resolves the conflict.",
    ] = OverlapPolicy.QUEUE
    deletion_policy: Annotated[
        DeletionPolicy,
        "What happens to nodes in flight when this object is deleted. Nodes that were upgraded stay upgraded.",
        Field(mutable=True),
    ] = DeletionPolicy.FINISH_IN_FLIGHT
    action: Annotated[
        RolloutAction,
        "Run: the nodes are upgraded. Plan: reports what an upgrade would do, without touching anything. Pause: no "
        "further node is started; nodes in flight are finished. Abort: the rollout ends for good; nodes in flight "
        "are rolled back unless they are about to finish.",
        Field(mutable=True),
        _action_rule(),
    ] = RolloutAction.RUN
    approved_waves: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=LABEL_LENGTH)], ...],
        SET,
        "Names of waves with approval: Manual that may begin. Names can be added, but not removed.",
        Field(max_items=MOST_WAVES + 1, mutable=True),
        additions_only("an approval cannot be taken back; set spec.action to Pause to stop"),
    ] = ()


SPEC: Final = frozen(schema_of(UpgradeSpec, by_people=True))
"""What is not declared to be mutable must not change once the rollout is accepted."""
