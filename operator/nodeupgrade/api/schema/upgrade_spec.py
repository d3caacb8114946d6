"""The spec of a NodeUpgrade."""

from nodeupgrade.api.run_settings import DriftPolicy, FlagPolicy, GuardPolicy, HashMode
from nodeupgrade.api.schema.artifact import ARTIFACT
from nodeupgrade.api.schema.blocks import choice, duration, immutable, text_set
from nodeupgrade.api.schema.model import Flag, Record, Text, Transition
from nodeupgrade.api.schema.nodes import NODES
from nodeupgrade.api.schema.pacing import BLACKOUTS, STRATEGY, TIMEOUTS, WINDOWS
from nodeupgrade.api.schema.waves import APPROVALS_NAME_WAVES, APPROVED_WAVES, WAVES
from nodeupgrade.api.upgrade_spec import DeletionPolicy, OverlapPolicy, RolloutAction, SkewPolicy

_FIXED = (immutable(),)

ACTION_STEPS = {
    RolloutAction.PLAN: (RolloutAction.RUN, RolloutAction.ABORT),
    RolloutAction.RUN: (RolloutAction.PAUSE, RolloutAction.ABORT),
    RolloutAction.PAUSE: (RolloutAction.RUN, RolloutAction.ABORT),
    RolloutAction.ABORT: (),
}
"""Which action may follow which."""


def _action_rule() -> Transition:
    steps = (
        f"(oldSelf == '{before}' && self in {[after.value for after in following]})"
        for before, following in ACTION_STEPS.items()
        if following
    )
    return Transition(
        " || ".join(("self == oldSelf", *steps)),
        "Plan may become Run or Abort, Run and Pause each other or Abort, and Abort stays; "
        "create another NodeUpgrade to begin anew",
        lambda new, old: new == old or new in ACTION_STEPS[RolloutAction(old)],
    )


_KUBELET = Record(
    says="How the kubelet is run on the nodes, and what may be changed about it.",
    default={},
    fields={
        "unit": Text(
            says="The kubelet's systemd unit.",
            longest=255,
            pattern=r"[A-Za-z0-9:_.@-]+\.service",
            default="kubelet.service",
            write="the name of a service unit such as kubelet.service",
        ),
        "flagPolicy": choice(
            FlagPolicy,
            "Whether flags that the new kubelet does not know forbid the upgrade or are removed.",
            default="Refuse",
        ),
        "removeFlags": text_set(
            "Flags to leave out, whether the new kubelet knows them or not.", Text(shortest=1, longest=128), 64
        ),
        "configurationDrift": choice(
            DriftPolicy,
            "Whether a node whose kubelet would start with another configuration than it runs with is refused, or what "
            "is on its disk is meant for the new kubelet (Accept); the way back then starts the old one with it too.",
            default="Refuse",
        ),
    },
    transitions=_FIXED,
)

_VERIFY = Record(
    says="When a node counts as upgraded, and when it is taken back.",
    default={},
    fields={
        "settle": duration("How long the node is watched after the swap.", "60s"),
        "kubeletDownBudget": duration(
            "How long the node may be without a kubelet before everything is undone.", "30s", positive=True
        ),
        "nodeReadyTimeout": duration("How long the node may take to be Ready again.", "60s", positive=True),
        "readinessGuard": choice(
            GuardPolicy,
            "Whether pods stay Ready until the new kubelet has probed them. Auto does what the API server can; "
            "Require touches no node without it.",
            default="Auto",
        ),
    },
    transitions=_FIXED,
)

SPEC = Record(
    says="What is wanted. One object is one rollout: for another version, create another object.",
    fields={
        "version": Text(
            says="The kubelet version to reach, for example v1.33.13.",
            longest=63,
            pattern=r"v1\.[0-9]{1,4}\.[0-9]{1,4}([-+][0-9A-Za-z.-]+)?",
            write="a version such as v1.33.13",
            transitions=_FIXED,
        ),
        "artifact": ARTIFACT,
        "nodes": NODES,
        "allowDowngrade": Flag(
            says="Whether nodes that run a newer kubelet may be taken back.", default=False, transitions=_FIXED
        ),
        "fromVersions": text_set(
            "Upgrade only nodes whose version begins like one of these, for example v1.30 or v1.30.4. Empty: all.",
            Text(longest=16, pattern=r"v1\.[0-9]{1,4}(\.[0-9]{1,4})?", write="the begin of a version such as v1.30"),
            32,
            default=[],
            transitions=_FIXED,
        ),
        "skewPolicy": choice(
            SkewPolicy,
            "Whether a target outside the API server's supported kubelet versions is refused or only mentioned.",
            default="Enforce",
            transitions=_FIXED,
        ),
        "hash": Record(
            says="What may be done to the hashes that kubelets store with containers.",
            default={},
            fields={
                "mode": choice(
                    HashMode,
                    "AssertUnchanged refuses nodes where any stored hash would have to be rewritten.",
                    default="Rewrite",
                )
            },
            transitions=_FIXED,
        ),
        "waves": WAVES,
        "strategy": STRATEGY,
        "windows": WINDOWS,
        "blackouts": BLACKOUTS,
        "kubelet": _KUBELET,
        "verify": _VERIFY,
        "timeouts": TIMEOUTS,
        "overlapPolicy": choice(
            OverlapPolicy,
            "When an older rollout holds the same nodes: wait for it, or ask for a human.",
            default="Queue",
            transitions=_FIXED,
        ),
        "deletionPolicy": choice(
            DeletionPolicy,
            "What happens to nodes in flight when this object is deleted; nodes that were upgraded stay upgraded.",
            default="FinishInFlight",
            mutable=True,
        ),
        "action": choice(
            RolloutAction,
            "Plan reports what would happen and touches nothing. Pause starts no further node; nodes in flight are "
            "finished. Abort ends the rollout for good; nodes in flight are taken back unless they are all but done.",
            default="Run",
            mutable=True,
            transitions=(_action_rule(),),
        ),
        "approvedWaves": APPROVED_WAVES,
    },
    required=("version", "artifact", "nodes"),
    rules=(APPROVALS_NAME_WAVES,),
)
