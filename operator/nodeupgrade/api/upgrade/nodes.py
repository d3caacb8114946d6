"""``spec.nodes``: which nodes are upgraded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from nodeupgrade.api.field import (
    LABEL_KEY,
    LABEL_KEY_PATTERN,
    LABEL_NAME,
    SET,
    Field,
    NameOfNode,
    Rule,
    additions_only,
    declared,
    keys_match,
    stays_or_not,
)
from nodeupgrade.api.limits import LABEL_LENGTH
from nodeupgrade.text import number

MOST_NAMES: Final = 500

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""The role labels of the control plane."""

_LABEL_VALUE = Field(
    max_length=LABEL_LENGTH,
    pattern=rf"({LABEL_NAME})?",
    expected=f"a label value of at most {LABEL_LENGTH} characters",
)


class CordonedPolicy(StrEnum):
    """Whether to skip nodes that someone else cordoned, or to upgrade them and leave them cordoned."""

    SKIP = "Skip"
    INCLUDE = "Include"


class NotReadyPolicy(StrEnum):
    """Whether to skip nodes that are not Ready, or to wait for them."""

    SKIP = "Skip"
    BLOCK = "Block"


class Membership(StrEnum):
    """Whether nodes that start to match after planning join the rollout."""

    SNAPSHOT = "Snapshot"
    CONTINUOUS = "Continuous"


@declared(
    Rule(
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        "In and NotIn need values, Exists and DoesNotExist must not have values",
    )
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One term of a label selector or of a node selector."""

    key: Annotated[str, LABEL_KEY, "Key of the label."]
    operator: Annotated[
        str, "Relationship of the label to values.", Field(enum=("In", "NotIn", "Exists", "DoesNotExist"))
    ]
    values: Annotated[
        tuple[Annotated[str, _LABEL_VALUE], ...],
        "Values of the label, for In and NotIn only.",
        Field(max_items=64, defaulted=False),
    ] = ()

    def met_by(self, values: Mapping[str, str]) -> bool:
        """Report whether labels or fields meet it; an unknown operator is never met."""
        value = values.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt":
                return self._compare(value) > 0
            case "Lt":
                return self._compare(value) < 0
            case _:
                return False

    def _compare(self, value: str | None) -> int:
        """Compare as Gt and Lt do; if a side is not an integer, return 0, which meets neither."""
        try:
            have, want = _integer(value or ""), _integer(self.values[0])
        except IndexError:
            return 0
        return 0 if have is None or want is None else (have > want) - (have < want)


def _integer(text: str) -> int | None:
    """Read an integer as strconv.ParseInt does."""
    found = number(text[1:] if text[:1] in {"+", "-"} else text)
    return -found if found is not None and text.startswith("-") else found


@declared(
    Rule(
        "(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && "
        "self.matchExpressions.size() > 0)",
        "an empty selector would select every node; write matchLabels or matchExpressions, or leave the selector out",
    )
)
@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """A metav1.LabelSelector that is not empty, since an empty one would select every node."""

    match_labels: Annotated[
        Mapping[str, Annotated[str, _LABEL_VALUE]] | None,
        "Labels that the node must have, with exactly these values.",
        Field(max_properties=32),
        keys_match(LABEL_KEY_PATTERN, "one of its keys is not a valid label key such as example.com/pool"),
    ] = None
    match_expressions: Annotated[
        tuple[Requirement, ...], "Terms that must all hold.", Field(max_items=32, defaulted=False)
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether it matches; an empty one matches everything."""
        expected = (self.match_labels or {}).items()
        fits = all(labels.get(key) == value for key, value in expected)
        return fits and all(requirement.met_by(labels) for requirement in self.match_expressions)


@declared(
    Field(mutable=True),
    Rule(
        "!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",
        "selector can be added, but not changed or removed; add names, or create another NodeUpgrade",
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExclusion:
    """Nodes to exclude although they are selected.

    Names can be added at any time, and a selector if there is none; nothing can be removed.
    """

    selector: Annotated[LabelSelector | None, "Excludes nodes by label."] = None
    names: Annotated[
        tuple[NameOfNode, ...],
        SET,
        "Names of nodes to exclude.",
        Field(max_items=MOST_NAMES),
        additions_only("names can be added, but not removed; upgrade these nodes with another NodeUpgrade"),
    ] = ()


@declared(
    Field(expected="a selector, names, or all: true"),
    Rule(
        "(has(self.all) && self.all) || (has(self.names) && self.names.size() > 0) || has(self.selector)",
        "no nodes are selected; write a selector, names, or all: true",
    ),
    stays_or_not("selector"),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """The nodes to upgrade: those selected and those named, or all, except those excluded."""

    selector: Annotated[LabelSelector | None, "Selects nodes by label."] = None
    names: Annotated[
        tuple[NameOfNode, ...],
        SET,
        "Names of nodes to upgrade in addition to those that the selector matches.",
        Field(max_items=MOST_NAMES),
    ] = ()
    all: Annotated[bool, "Selects all nodes. A selector is then not needed."] = False
    exclude: NodeExclusion = field(default_factory=NodeExclusion)
    control_plane: Annotated[
        bool,
        "Whether to include nodes with the role label of the control plane. Nodes in names are always included.",
    ] = False
    cordoned: Annotated[
        CordonedPolicy,
        "What to do about nodes cordoned by others. Skip: skip them. Include: upgrade them; they stay cordoned.",
    ] = CordonedPolicy.SKIP
    cordon: Annotated[
        bool,
        "Whether a node is cordoned during its run. If not, pods may be placed on it meanwhile: they start once the "
        "new kubelet runs, and those that come just before may turn the run back.",
        Field(mutable=True),
    ] = True
    not_ready: Annotated[
        NotReadyPolicy,
        "What to do about nodes that have not been Ready for five minutes. Skip: skip them. Block: wait for them.",
    ] = NotReadyPolicy.SKIP
    membership: Annotated[
        Membership,
        "Whether the set of nodes is fixed when the rollout is planned (Snapshot), or also includes nodes that "
        "match later (Continuous).",
    ] = Membership.SNAPSHOT

    @property
    def beyond_names(self) -> bool:
        """Whether nodes are selected by more than their names."""
        return self.all or self.selector is not None

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Report whether a node is selected."""
        excluded = self.exclude
        if name in excluded.names or (excluded.selector is not None and excluded.selector.matches(labels)):
            return False
        if name in self.names:
            return True
        if not self.control_plane and any(label in labels for label in CONTROL_PLANE_LABELS):
            return False
        return self.all or (self.selector is not None and self.selector.matches(labels))
