"""Annotations for the fields of API objects: what a field's Python type and default do not say.

``Annotated[int, "Slots to add.", Field(minimum=1, maximum=100), Rule(…)]`` declares a field in one place; CRDs,
validation, defaulting and documentation are derived from it (``schema.derive``). The terms are OpenAPI's. Rules are in
CEL, which API servers evaluate from Kubernetes 1.25 on, and ``schema.validation`` wherever no API server does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar

from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH
from nodeupgrade.api.values import NodeName


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a value, or on a value and the one that it replaces."""

    cel: str  # an expression on ``self``, or on ``self`` and ``oldSelf``
    message: str  # the error and what to do
    advisory: bool = False  # whether the control plane only warns; the API server rejects the value anyway

    @property
    def transition(self) -> bool:
        """Whether the API server evaluates it on updates only, which it does if the rule names ``oldSelf``."""
        return "oldSelf" in self.cel


Validator: TypeAlias = Callable[[Any], str]
"""A validation that only the control plane can make: returns the error, or an empty string."""


class ListType(StrEnum):
    """How the API server compares and merges lists."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Field:
    """Declares a field, an item of a list or map, or every object of a class (``declared``)."""

    description: str = ""  # for ``kubectl explain``; an object that has none is described by its class's docstring
    expected: str = ""  # what to write instead of an invalid value; derived from the bounds if empty
    minimum: int | None = None
    maximum: int | None = None
    min_length: int = 0
    max_length: int | None = None
    pattern: str = ""
    enum: tuple[str, ...] = ()  # the values that a string may have; for an enumeration, all of its members by default
    open: bool = False  # whether a string may have other values than the enumeration's members, for newer writers
    positive: bool = False  # whether a duration must be greater than zero
    min_properties: int = 0
    max_properties: int | None = None
    max_items: int | None = None
    list_type: ListType = ListType.ATOMIC
    list_map_key: str = ""
    # whether the API server fills in the field's default; None: in what people write, if it is not null
    defaulted: bool | None = None
    # the default in JSON, if it differs from what the codec makes of the field's default (60s, not 1m)
    default: object = None
    rules: tuple[Rule, ...] = ()
    validators: tuple[Validator, ...] = ()
    mutable: bool = False  # whether it may be changed after the rollout was accepted
    # whether a program copies the value from validated input. Then only its size is bounded, and durations are seconds.
    resolved: bool = False

    def overridden(self, later: "Field") -> "Field":
        """Combine two declarations of the same field."""
        values: dict[str, Any] = {}
        for each in fields(self):
            ours, theirs = getattr(self, each.name), getattr(later, each.name)
            adds_up = each.name in {"rules", "validators"}
            values[each.name] = (*ours, *theirs) if adds_up else ours if theirs == each.default else theirs
        return Field(**values)


Annotation: TypeAlias = Field | Rule | str
"""One annotation of a field; a text is its description."""

T = TypeVar("T", bound=type)
_OF_CLASSES: dict[type, tuple[Annotation, ...]] = {}


def declared(*marks: Annotation) -> Callable[[T], T]:
    """Annotate a class: the marks apply to every field, item and root that has it as its type."""

    def annotate(kind: T) -> T:
        _OF_CLASSES[kind] = marks
        return kind

    return annotate


def annotations_of(kind: type) -> tuple[Annotation, ...]:
    """Return the annotations of a class."""
    return _OF_CLASSES.get(kind, ())


def combined(marks: Iterable[Annotation]) -> Field:
    """Combine annotations: later ones override earlier ones, except that rules and validators add up."""
    field = Field()
    for mark in marks:
        match mark:
            case str():
                field = replace(field, description=mark)
            case Rule():
                field = replace(field, rules=(*field.rules, mark))
            case Field():
                field = field.overridden(mark)
    return field


def immutable(instead: str = "create another NodeUpgrade") -> Rule:
    """Return the rule that a value must not change, apart from the order of sets."""
    return Rule("self == oldSelf", f"it is immutable; {instead}")


def stays_or_not(name: str, instead: str = "create another NodeUpgrade") -> Rule:
    """Return the rule that an optional field is neither added nor removed; its content has its own rules."""
    return Rule(
        f"has(self.{name}) == has(oldSelf.{name})",
        f"{name} is immutable and can be neither added nor removed; {instead}",
    )


def additions_only(message: str) -> Rule:
    """Return the rule that items may be added to a set but not removed."""
    return Rule("oldSelf.all(item, item in self)", message)


def one_of(*names: str) -> Rule:
    """Return the rule that exactly one of these fields is set."""
    return Rule(
        f"[{', '.join(f'has(self.{name})' for name in names)}].filter(set, set).size() == 1",
        f"exactly one of {', '.join(names[:-1])} and {names[-1]} must be set",
    )


def keys_match(pattern: str, message: str) -> Rule:
    """Return the rule that all keys of a map match a pattern."""
    return Rule(f"self.all(key, key.matches('^{pattern}$'))", message)


POSITIVE_DURATION = Rule("duration(self) > duration('0s')", "it must be longer than 0s, for example 30s")
"""The rule for a duration that is ``positive``."""

_TIME = r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})"
WRITTEN_TIME = Field(max_length=32, pattern=_TIME, expected="a time such as 2026-12-24T00:00:00Z")
"""A time that a person writes. It needs a UTC offset to be unambiguous."""

LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY_PATTERN = rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{LABEL_NAME}"
LABEL_KEY = Field(
    min_length=1, max_length=317, pattern=LABEL_KEY_PATTERN, expected="a label key such as example.com/pool"
)

DNS_LABEL = Field(
    min_length=1,
    max_length=LABEL_LENGTH,
    pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    expected=f"a name of lower-case letters, digits and hyphens, at most {LABEL_LENGTH}",
)
SHA256 = Field(
    max_length=64, pattern="[0-9a-f]{64}", expected="64 lower-case hexadecimal digits, as sha256sum prints them"
)

SET = Field(list_type=ListType.SET)
RESOLVED = Field(resolved=True)

NameOfNode: TypeAlias = Annotated[NodeName, Field(min_length=1, max_length=NAME_LENGTH)]
Count: TypeAlias = Annotated[int, Field(minimum=0)]
"""A counter in a status."""
