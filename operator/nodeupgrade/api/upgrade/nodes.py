"""``spec.nodes``: which nodes are upgraded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from nodeupgrade.api.field import (
    IMMUTABLE,
    LABEL_KEY,
    LABEL_KEY_PATTERN,
    LABEL_NAME,
    SET,
    Field,
    NameOfNode,
    Rule,
    TransitionRule,
    additions_only,
    keys_match,
    stays_or_not,
)
from nodeupgrade.api.limits import LABEL_LENGTH

MOST_NAMES: Final = 500

_LABEL_VALUE = Field(
    max_length=LABEL_LENGTH,
    pattern=rf"({LABEL_NAME})?",
    expected=f"the value of a label, at most {LABEL_LENGTH} characters",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One term of a label selector or of a node selector."""

    SCHEMA: ClassVar = Field(
        rules=(
            Rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "In and NotIn need values, Exists and DoesNotExist must not have any",
            ),
        ),
    )

    key: Annotated[str, LABEL_KEY, Field("Key of the label.")]
    operator: Annotated[
        str, Field("How the value of the label relates to values.", enum=("In", "NotIn", "Exists", "DoesNotExist"))
    ]
    values: Annotated[
        tuple[Annotated[str, _LABEL_VALUE], ...], Field("Values of the label, for In and NotIn only.", max_items=64)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """A metav1.LabelSelector that is not empty, since an empty one would select every node."""

    SCHEMA: ClassVar = Field(
        rules=(
            Rule(
                "(has(self.matchLabels) && self.matchLabels.size() > 0) || "
                "(has(self.matchExpressions) && self.matchExpressions.size() > 0)",
                "an empty selector would select every node; write matchLabels or matchExpressions, or leave the "
                "selector out",
            ),
        ),
    )

    match_labels: Annotated[
        Mapping[str, Annotated[str, _LABEL_VALUE]] | None,
        Field(
            "Labels that the node must have, with exactly these values.",
            max_properties=32,
            rules=(
                keys_match(LABEL_KEY_PATTERN, "one of its keys is not the key of a label such as example.com/pool"),
            ),
        ),
    ] = None
    match_expressions: Annotated[tuple[Requirement, ...], Field("Terms that must all hold.", max_items=32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExclusion:
    """Nodes to exclude although they are selected."""

    SCHEMA: ClassVar = Field(
        "Nodes to exclude although they are selected. Names can be added at any time, as can a selector where there "
        "was none; nothing can be removed.",
        defaulted=True,
        mutable=True,
        transitions=(
            TransitionRule(
                "!has(oldSelf.selector) || (has(self.selector) && self.selector == oldSelf.selector)",
                "its selector may be added, neither changed nor taken away; add names, or create another NodeUpgrade",
            ),
        ),
    )

    selector: Annotated[LabelSelector | None, Field("Excludes nodes by label.")] = None
    names: Annotated[
        tuple[NameOfNode, ...],
        SET,
        Field(
            "Names of nodes to exclude.",
            max_items=MOST_NAMES,
            defaulted=True,
            transitions=(
                additions_only("names may be added, not taken away; upgrade these nodes with another NodeUpgrade"),
            ),
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """Which nodes to upgrade: those selected and those named, or all, except those excluded."""

    SCHEMA: ClassVar = Field(
        "The nodes to upgrade.",
        expected="a selector, names, or all: true",
        rules=(
            Rule(
                "(has(self.all) && self.all) || (has(self.names) && self.names.size() > 0) || has(self.selector)",
                "it selects nothing; write a selector, names, or all: true",
            ),
        ),
        transitions=(stays_or_not("selector"),),
    )

    selector: Annotated[LabelSelector | None, IMMUTABLE, Field("Selects nodes by label.")] = None
    names: Annotated[
        tuple[NameOfNode, ...],
        SET,
        IMMUTABLE,
        Field(
            "Names of nodes to upgrade in addition to those that the selector matches.",
            max_items=MOST_NAMES,
            defaulted=True,
        ),
    ] = ()
    all: Annotated[bool, IMMUTABLE, Field("Selects all nodes; no selector is needed then.", defaulted=True)] = False
    exclude: NodeExclusion = field(default_factory=NodeExclusion)
    control_plane: Annotated[
        bool,
        IMMUTABLE,
        Field(
            "Whether to include nodes with the role label of the control plane. Nodes listed by name are always "
            "included.",
            defaulted=True,
        ),
    ] = False
    cordoned: Annotated[
        CordonedPolicy,
        IMMUTABLE,
        Field(
            "Whether nodes that were cordoned by somebody else are skipped or upgraded (and stay cordoned).",
            defaulted=True,
        ),
    ] = CordonedPolicy.SKIP
    not_ready: Annotated[
        NotReadyPolicy,
        IMMUTABLE,
        Field(
            "Whether nodes that have not been Ready for five minutes are skipped, or waited for.",
            defaulted=True,
        ),
    ] = NotReadyPolicy.SKIP
    membership: Annotated[
        Membership,
        IMMUTABLE,
        Field(
            "Whether the set of nodes is fixed when the rollout is planned (Snapshot), or also includes nodes that "
            "match later (Continuous).",
            defaulted=True,
        ),
    ] = Membership.SNAPSHOT
