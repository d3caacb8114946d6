"""What an annotation declares of a field of an API object, beside its Python type and its default.

``Annotated[int, Field("Slots to add.", minimum=1, maximum=100)]``: CRDs, validation, defaulting and documentation are
derived from this (``schema.derive``), so that a field is declared in one place. The words are OpenAPI's. A rule is
there twice: in CEL, as the API server evaluates it from Kubernetes 1.25 on, and in Python.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from nodeupgrade.api.durations import parse_duration
from nodeupgrade.api.values import NodeName


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a value, beyond its shape.

    Attributes:
        cel: the rule as the API server evaluates it.
        message: what is wrong and what to do.
        holds: the same rule in Python; it is given the value as JSON, with its defaults filled in.
        advisory: the API server rejects the value, the control plane only mentions it: work can go on.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]  # Any: a value of the schema that carries the rule, which is what the rule knows
    advisory: bool = False


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """What must hold between a value and the one it replaces; ``holds`` takes the new value first."""

    cel: str
    message: str
    holds: Callable[[Any, Any], bool]


Check: TypeAlias = Callable[[Any], str]
"""What only the control plane can check: returns what is wrong with a value, or nothing."""


class ListType(StrEnum):
    """How the API server compares and merges lists."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Field:
    """A field, or an item of a list or map, or, as ``SCHEMA`` of a class, every object of that class.

    Of several annotations, the later ones win; rules add up.

    Attributes:
        description: for people who read the manifest or ask ``kubectl explain``.
        expected: what a person should write in place of a wrong value; derived from the bounds if empty.
        enum: the values a string may have; of an enumeration, it is all of its members.
        open: the string may have other values than the enumeration's members: a newer writer may know more.
        positive: a duration must be longer than nothing.
        first: properties of an object that its CRD lists before all others.
        defaulted: the API server fills in the field's default.
        default: in JSON, where that is not what the codec makes of the field's own default, such as 60s for 1m.
        mutable: whether it may be changed after the rollout was accepted.
        resolved: what a person wrote, handed on by a program: checked already, so that only its size is bounded, and
            with durations as numbers of seconds.
    """

    description: str = ""
    expected: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int = 0
    max_length: int | None = None
    pattern: str = ""
    enum: tuple[str, ...] = ()
    open: bool = False
    positive: bool = False
    min_properties: int = 0
    max_properties: int | None = None
    max_items: int | None = None
    list_type: ListType = ListType.ATOMIC
    list_map_key: str = ""
    first: tuple[str, ...] = ()
    defaulted: bool = False
    default: object = None
    rules: tuple[Rule, ...] = ()
    transitions: tuple[TransitionRule, ...] = ()
    checks: tuple[Check, ...] = ()
    mutable: bool = False
    resolved: bool = False

    def overridden(self, later: "Field") -> "Field":
        """Combine two declarations of the same field."""
        values: dict[str, Any] = {}
        for each in fields(self):
            ours, theirs = getattr(self, each.name), getattr(later, each.name)
            adds_up = each.name in {"rules", "transitions", "checks"}
            values[each.name] = (*ours, *theirs) if adds_up else ours if theirs == each.default else theirs
        return Field(**values)


def immutable(instead: str = "create another NodeUpgrade") -> TransitionRule:
    """The value stays what it was when the object was created; the order of sets counts in neither language."""
    return TransitionRule("self == oldSelf", f"it is immutable; {instead}", lambda new, old: bool(new == old))


def stays_or_not(name: str, instead: str = "create another NodeUpgrade") -> TransitionRule:
    """An optional field is neither added nor taken away; what it holds is the business of its own rules."""
    return TransitionRule(
        f"has(self.{name}) == has(oldSelf.{name})",
        f"{name} is immutable, it can neither be added nor be taken away; {instead}",
        lambda new, old: (name in new) == (name in old),
    )


def additions_only(message: str) -> TransitionRule:
    """Items are added to a set, and none is taken away."""
    return TransitionRule("oldSelf.all(item, item in self)", message, lambda new, old: set(old) <= set(new))


def keys_match(pattern: str, message: str) -> Rule:
    """All keys of a map look like this."""
    compiled = re.compile(pattern, re.ASCII)
    return Rule(
        f"self.all(key, key.matches('^{pattern}$'))",
        message,
        lambda value: all(compiled.fullmatch(key) is not None for key in value),
    )


IMMUTABLE = Field(transitions=(immutable(),))

LASTING = Rule(
    cel="duration(self) > duration('0s')",
    message="it must be longer than nothing; write for example 30s",
    holds=lambda value: parse_duration(value) > timedelta(),
)
"""The rule of a duration that is ``positive``."""

_TIME = r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})"
WRITTEN_TIME = Field(max_length=32, pattern=_TIME, expected="a time such as 2026-12-24T00:00:00Z")
"""A time that a person wrote: with its offset, for without one nobody knows when it is."""

LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY_PATTERN = rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{LABEL_NAME}"
LABEL_KEY = Field(
    min_length=1, max_length=317, pattern=LABEL_KEY_PATTERN, expected="the key of a label such as example.com/pool"
)

SET = Field(list_type=ListType.SET)
RESOLVED = Field(resolved=True)

NameOfNode: TypeAlias = Annotated[NodeName, Field(min_length=1, max_length=253)]
Count: TypeAlias = Annotated[int, Field(minimum=0)]
"""A number of something, in a status."""
