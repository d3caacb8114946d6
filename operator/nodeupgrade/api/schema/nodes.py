"""``spec.nodes``: which nodes are upgraded."""

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.blocks import (
    additions_only,
    choice,
    immutable,
    label_selector,
    node_name,
    stays_or_not,
    text_set,
)
from nodeupgrade.api.schema.model import Flag, Record, Rule, Transition
from nodeupgrade.api.upgrade_spec import CordonedPolicy, Membership, NotReadyPolicy

MOST_NAMES = 500

_FIXED = (immutable(),)


def _exclusion_stays(new: Json, old: Json) -> bool:
    return "selector" not in old or new.get("selector") == old["selector"]


_EXCLUDE = Record(
    says="Nodes that are left out although they are selected. Names, and a selector where there was none, may be added "
    "at any time; nothing may be taken away.",
    default={},
    mutable=True,
    fields={
        "selector": label_selector("Nodes to leave out, by label."),
        "names": text_set(
            "Nodes to leave out, by name.",
            node_name(),
            MOST_NAMES,
            default=[],
            transitions=(
                additions_only("names may be added, not taken away; upgrade these nodes with another NodeUpgrade"),
            ),
        ),
    },
    transitions=(
        Transition(
            "!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",
            "its selector may be added, neither changed nor taken away; add names, or create another NodeUpgrade",
            _exclusion_stays,
        ),
    ),
)


def _selects(nodes: Json) -> bool:
    return bool(nodes.get("all") or nodes.get("names") or nodes.get("selector"))


NODES = Record(
    says="Which nodes are upgraded.",
    write="a selector, names, or all: true",
    fields={
        "selector": label_selector("Nodes by label.", transitions=_FIXED),
        "names": text_set(
            "Nodes by name, beside those that are selected.", node_name(), MOST_NAMES, default=[], transitions=_FIXED
        ),
        "all": Flag(says="All nodes, without a selector.", default=False, transitions=_FIXED),
        "exclude": _EXCLUDE,
        "controlPlane": Flag(
            says="Whether nodes with a control plane's role label belong; those named always do.",
            default=False,
            transitions=_FIXED,
        ),
        "cordoned": choice(
            CordonedPolicy,
            "Whether nodes that somebody else cordoned are left alone or upgraded as they are.",
            default="Skip",
            transitions=_FIXED,
        ),
        "notReady": choice(
            NotReadyPolicy,
            "Whether nodes that have not been Ready for five minutes are passed over, or waited for until they are.",
            default="Skip",
            transitions=_FIXED,
        ),
        "membership": choice(
            Membership,
            "Whether nodes that come to match after the plan was made belong to the rollout (Continuous).",
            default="Snapshot",
            transitions=_FIXED,
        ),
    },
    rules=(
        Rule(
            "(has(self.all) && self.all) || (has(self.names) && self.names.size() > 0) || has(self.selector)",
            "it selects nothing; write a selector, names, or all: true",
            _selects,
        ),
    ),
    transitions=(stays_or_not("selector"),),
)
