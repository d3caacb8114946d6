"""``spec.waves`` and ``spec.approvedWaves``: in which groups nodes are upgraded, and who lets each begin."""

from nodeupgrade.api.schema.blocks import (
    additions_only,
    choice,
    duration,
    immutable,
    label_selector,
    portion,
    stays_or_not,
    text_set,
)
from nodeupgrade.api.schema.model import ListOf, Record, Rule, Sort, Text, Transition
from nodeupgrade.api.upgrade_spec import REMAINDER, SLOTS, ApprovalPolicy

MOST_WAVES = 20

_FIXED = (immutable(),)

_NAME = Text(
    says="Name of the wave, a DNS label.",
    shortest=1,
    longest=63,
    pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    write="a name of lower-case letters, digits and hyphens, at most 63",
    rules=(
        Rule(
            f"self != '{REMAINDER}'",
            f"{REMAINDER} is the wave of all nodes that no other wave takes; choose another name",
            lambda name: name != REMAINDER,
        ),
    ),
)

_WAVE = Record(
    fields={
        "name": _NAME,
        "selector": label_selector(
            "Nodes of the wave, by label; a node belongs to the first wave that takes it.", transitions=_FIXED
        ),
        "size": portion(
            "Or so many of the nodes that are left; a percentage is of the rollout's nodes.", transitions=_FIXED
        ),
        "maxConcurrent": portion(
            "Nodes of the wave in flight at the same time, beside the strategy's limit; a percentage is of the wave's "
            "nodes and rounds down, to at least one.",
            most=SLOTS,
            mutable=True,
        ),
        "soak": duration("Rest after the wave's last node.", "0s", mutable=True),
        "approval": choice(
            ApprovalPolicy,
            "Whether the wave begins by itself, or when its name is in approvedWaves or in the annotation "
            "nodeupgrade.dev/approve.",
            default="Auto",
            transitions=_FIXED,
        ),
        "failureThreshold": portion(
            "Failed or rolled-back nodes of the wave at which no further node is started, beside the strategy's "
            "threshold.",
            mutable=True,
        ),
    },
    required=("name",),
    rules=(
        Rule(
            "has(self.selector) != has(self.size)",
            "exactly one of selector and size is needed",
            lambda wave: ("selector" in wave) != ("size" in wave),
        ),
    ),
    transitions=(stays_or_not("selector"), stays_or_not("size")),
)

WAVES = ListOf(
    says="Groups of nodes, one finished before the next begins; nodes that no wave takes form the last wave, "
    "remainder. Only the limits maxConcurrent, soak and failureThreshold may be changed.",
    item=_WAVE,
    most=MOST_WAVES,
    sort=Sort.MAP,
    key="name",
    default=[],
    transitions=(
        Transition(
            "self.map(wave, wave.name) == oldSelf.map(wave, wave.name)",
            "waves can neither be added, taken away, renamed nor put in another order; create another NodeUpgrade",
            lambda new, old: [wave["name"] for wave in new] == [wave["name"] for wave in old],
        ),
    ),
)

APPROVED_WAVES = text_set(
    "Waves that may begin although their approval is Manual. Names are added, never taken away.",
    Text(shortest=1, longest=63),
    MOST_WAVES + 1,
    default=[],
    mutable=True,
    transitions=(additions_only("an approval cannot be taken back; set spec.action to Pause to stop"),),
)

APPROVALS_NAME_WAVES = Rule(
    f"self.approvedWaves.all(name, name == '{REMAINDER}' || self.waves.exists(wave, wave.name == name))",
    f"approvedWaves names a wave that does not exist; write names of spec.waves, or {REMAINDER}",
    lambda spec: set(spec["approvedWaves"]) <= {REMAINDER, *(wave["name"] for wave in spec["waves"])},
    advisory=True,
)
