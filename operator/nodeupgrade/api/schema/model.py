"""What schemas are made of: kinds of values with their bounds, and the rules between values.

Everything here says the same thing twice: once as the API server reads it (OpenAPI keywords and CEL), and once as
Python checks it. ``openapi`` writes the first, ``checking`` and ``changes`` do the second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

GROUP: Final = "nodeupgrade.dev"
VERSION: Final = "v1alpha1"

ABSENT: Final = object()
"""Stands for no default at all, which is something else than a default of nothing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a value, beyond its shape.

    Attributes:
        cel: the rule as the API server evaluates it from Kubernetes 1.25 on.
        message: what is wrong and what to do.
        holds: the same rule in Python; it sees the value with its defaults filled in.
        advisory: the API server rejects the value, the control plane only mentions it: work can go on.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]  # Any: a value of the schema that carries the rule, which is what the rule knows
    advisory: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """What must hold between a value and the one it replaces; ``holds`` takes the new value first."""

    cel: str
    message: str
    holds: Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class Examination:
    """What only the control plane can check: returns what is wrong with a value, or nothing."""

    finds: Callable[[Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What all schemas have.

    Attributes:
        says: the description, for people who read the manifest or ask ``kubectl explain``.
        write: what a person should write in place of a wrong value; derived from the bounds if empty.
        default: filled in by the API server, and by us for what an API server did not see.
        mutable: whether it may be changed after the rollout was accepted.
    """

    says: str = ""
    write: str = ""
    default: object = ABSENT
    rules: tuple[Rule, ...] = ()
    transitions: tuple[Transition, ...] = ()
    examinations: tuple[Examination, ...] = ()
    mutable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    """A string; ``pattern`` must match all of it, ``moment`` makes it an RFC 3339 time."""

    longest: int | None = None
    shortest: int = 0
    pattern: str = ""
    choices: tuple[str, ...] = ()
    moment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Node):
    """An integer."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Node):
    """A number that may have a fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Node):
    """A boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion(Node):
    """A number of nodes from 1, or a percentage from 1% to 100%."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Node):
    """An object with fields of its own."""

    fields: "Mapping[str, Schema]"
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf(Node):
    """An object whose keys people choose."""

    value: "Schema"
    most: int
    least: int = 0


class Sort(StrEnum):
    """How the API server compares and merges lists."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(Node):
    """A list; of ``Sort.MAP``, items are told apart by their field ``key``."""

    item: "Schema"
    most: int
    sort: Sort = Sort.ATOMIC
    key: str = ""


Schema: TypeAlias = Text | Whole | Number | Flag | Portion | Record | MapOf | ListOf


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with an object.

    Attributes:
        path: the field, for example ``spec.waves[1].size``.
        message: what is wrong with it and what to do, for people.
        warning: whether the object can be worked with all the same.
    """

    path: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``; priority 1 is shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    says: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of our kinds of objects, all that a CustomResourceDefinition needs."""

    kind: str
    plural: str
    short: str
    says: str
    name: Text
    spec: Record
    status: Record
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    comment: tuple[str, ...] = ()

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"
