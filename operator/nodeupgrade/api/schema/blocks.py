"""Building blocks that several fields are made of."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Any

from nodeupgrade.api.durations import parse_duration
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.model import (
    ABSENT,
    ListOf,
    MapOf,
    Portion,
    Record,
    Rule,
    Sort,
    Text,
    Transition,
    Whole,
)

MOST_NODES = 100_000
"""More nodes than any cluster has."""

_DURATION = r"([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"
_MOMENT = r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})"
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL_NAME}"
_LABEL_VALUE = rf"({_LABEL_NAME})?"


def choice(kind: type[StrEnum], says: str, **more: Any) -> Text:
    """One of the values of an enumeration."""
    return Text(says=says, choices=tuple(member.value for member in kind), **more)


def count(says: str = "") -> Whole:
    """A number of something, in a status."""
    return Whole(says=says, least=0)


def moment(says: str = "") -> Text:
    """A time, in a status."""
    return Text(says=says, moment=True)


def stated_moment(says: str) -> Text:
    """A time that a person wrote: with its offset, for without one nobody knows when it is."""
    return Text(says=says, moment=True, longest=32, pattern=_MOMENT, write="a time such as 2026-12-24T00:00:00Z")


def node_name(says: str = "") -> Text:
    """The name of a Node object."""
    return Text(says=says, shortest=1, longest=253)


def duration(says: str, default: object = ABSENT, *, positive: bool = False, **more: Any) -> Text:
    """A duration in whole seconds; zero is none if it must be ``positive``."""
    lasting = Rule(
        cel="duration(self) > duration('0s')",
        message="it must be longer than nothing; write for example 30s",
        holds=lambda value: parse_duration(value) > timedelta(),
    )
    rules = (lasting,) if positive else ()
    words = "a duration such as 90s, 15m or 1h30m"
    return Text(says=says, default=default, shortest=2, longest=16, pattern=_DURATION, write=words, rules=rules, **more)


def portion(says: str, default: object = ABSENT, *, most: int = MOST_NODES, **more: Any) -> Portion:
    """A number of nodes or a percentage."""
    limit = "" if most == MOST_NODES else f" to {most}"
    words = f"a number from 1{limit} or a percentage from 1% to 100%"
    return Portion(says=says, default=default, most=most, write=words, **more)


def text_set(says: str, item: Text, most: int, **more: Any) -> ListOf:
    """A list of different strings, in any order."""
    return ListOf(says=says, item=item, most=most, sort=Sort.SET, **more)


def immutable(instead: str = "create another NodeUpgrade") -> Transition:
    """The value stays what it was when the object was created; the order of sets counts in neither language."""
    return Transition("self == oldSelf", f"it is immutable; {instead}", lambda new, old: bool(new == old))


def stays_or_not(name: str, instead: str = "create another NodeUpgrade") -> Transition:
    """An optional field is neither added nor taken away; what it holds is the business of its own rules."""
    return Transition(
        f"has(self.{name}) == has(oldSelf.{name})",
        f"{name} is immutable, it can neither be added nor be taken away; {instead}",
        lambda new, old: (name in new) == (name in old),
    )


def additions_only(message: str) -> Transition:
    """Items are added to a set, and none is taken away."""
    return Transition("oldSelf.all(item, item in self)", message, lambda new, old: set(old) <= set(new))


def keys_match(pattern: str, message: str) -> Rule:
    """All keys of a map look like this."""
    compiled = re.compile(pattern, re.ASCII)
    return Rule(
        f"self.all(key, key.matches('^{pattern}$'))",
        message,
        lambda value: all(compiled.fullmatch(key) is not None for key in value),
    )


def label_key(says: str) -> Text:
    """The key of a label."""
    return Text(
        says=says, shortest=1, longest=317, pattern=_LABEL_KEY, write="the key of a label such as example.com/pool"
    )


def label_selector(says: str, **more: Any) -> Record:
    """A metav1.LabelSelector that selects something: one that is empty would mean everything."""
    value = Text(longest=63, pattern=_LABEL_VALUE, write="the value of a label, at most 63 characters")
    term = Record(
        fields={
            "key": label_key("The label's key."),
            "operator": Text(
                says="How the label's value relates to the values.", choices=("In", "NotIn", "Exists", "DoesNotExist")
            ),
            "values": ListOf(says="For In and NotIn only.", item=value, most=64),
        },
        required=("key", "operator"),
        rules=(
            Rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "In and NotIn need values, Exists and DoesNotExist must not have any",
                lambda term: (term["operator"] in {"In", "NotIn"}) == bool(term.get("values")),
            ),
        ),
    )
    labels = MapOf(
        says="Labels with exactly these values.",
        value=value,
        most=32,
        rules=(keys_match(_LABEL_KEY, "one of its keys is not the key of a label such as example.com/pool"),),
    )
    selects = Rule(
        "(has(self.matchLabels) && self.matchLabels.size() > 0) || "
        "(has(self.matchExpressions) && self.matchExpressions.size() > 0)",
        "an empty selector would select every node; write matchLabels or matchExpressions, or leave the selector out",
        _selects,
    )
    terms = ListOf(says="Terms that must all hold.", item=term, most=32)
    return Record(says=says, fields={"matchLabels": labels, "matchExpressions": terms}, rules=(selects,), **more)


def _selects(selector: Json) -> bool:
    return bool(selector.get("matchLabels") or selector.get("matchExpressions"))
