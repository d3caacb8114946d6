"""The schemas agree with the types that are read by them, and the committed manifests with the schemas."""

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, NewType

import pytest
import yaml

from nodeupgrade.api.crds import KINDS
from nodeupgrade.api.field import RESOLVED, declared
from nodeupgrade.api.field import Field as Declared
from nodeupgrade.api.json import field_name, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.schema.derive import Schema, Type, schema_of
from nodeupgrade.api.schema.openapi import Kind
from nodeupgrade.api.schema.validation import filled
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.api.values import IntOrPercent, parse_duration
from tools import generate_crds

STATUS, TASK_SPEC, TASK_STATUS = schema_of(UpgradeStatus), schema_of(TaskSpec), schema_of(TaskStatus)
SIMPLE: dict[Any, Type] = {
    str: Type.STRING,
    datetime: Type.STRING,
    timedelta: Type.STRING,
    int: Type.INTEGER,
    float: Type.NUMBER,
    bool: Type.BOOLEAN,
    IntOrPercent: Type.INT_OR_STRING,
}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [(SPEC, UpgradeSpec), (STATUS, UpgradeStatus), (TASK_SPEC, TaskSpec), (TASK_STATUS, TaskStatus)],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_schemas_and_types_have_the_same_fields(schema: Schema, kind: type) -> None:
    assert list(disagreements(schema, kind, "")) == []


def disagreements(schema: Schema, hint: Any, path: str) -> Iterator[str]:
    hint, origin = plain(hint), typing.get_origin(plain(hint))
    arguments = typing.get_args(hint)
    if origin is tuple and schema.type is Type.ARRAY:
        yield from disagreements(schema.of(0), arguments[0], f"{path}[]")
    elif origin is not None and issubclass(origin, Mapping) and schema.type is Type.MAP:
        yield from disagreements(schema.of(""), arguments[1], f"{path}{{}}")
    elif is_dataclass(hint) and hint is not IntOrPercent and schema.type is Type.OBJECT:
        yield from record_disagreements(schema, typing.cast("type", hint), path)
    elif isinstance(hint, type) and issubclass(hint, StrEnum) and schema.type is Type.STRING:
        # Reasons are open: a newer operator may know more of them.
        if hint is not Reason and set(schema.enum) != {member.value for member in hint}:
            yield f"{path}: {schema.enum}"
    elif schema.type is not SIMPLE.get(hint):
        yield f"{path}: {hint} is a {schema.type}"
    elif hint is datetime and not schema.format:
        yield f"{path}: no time"


def record_disagreements(schema: Schema, kind: type, path: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    told = kind is VerifySettings and "settle" not in schema.properties  # durations for people, seconds for the node
    lasting = {field.name for field in fields(kind) if told and hints[field.name] is timedelta}
    named = {
        field_name(f"{field.name}_seconds" if field.name in lasting else field.name): field for field in fields(kind)
    }
    yield from (f"{path}.{name}: only one has it" for name in named.keys() ^ schema.properties.keys())
    needed = {name for name, field in named.items() if field.default is field.default_factory is MISSING}
    yield from (f"{path}.{name}: required by one only" for name in needed ^ set(schema.required))
    for name in named.keys() & schema.properties.keys():
        child = schema.properties[name]
        hint = hints[named[name].name]
        yield from disagreements(child, int if named[name].name in lasting else hint, f"{path}.{name}")
        if child.default is not None and name not in needed and hint is not VerifySettings:
            theirs, ours = filled(child, child.default), default_of(named[name])
            if hint is timedelta:
                theirs, ours = parse_duration(theirs), parse_duration(ours)
            if without_nothing(theirs) != ours:
                yield f"{path}.{name}: default {theirs!r}, not {ours!r}"


def plain(hint: Any) -> Any:
    if isinstance(hint, NewType):
        return hint.__supertype__
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return plain(next(argument for argument in typing.get_args(hint) if argument is not type(None)))
    return hint


def default_of(field: Field[Any]) -> Any:
    factory = field.default_factory
    value = field.default if factory is MISSING else factory()
    return without_nothing(to_json(value))


def without_nothing(value: Any) -> Any:
    """An empty list that is not there is empty all the same."""
    if not isinstance(value, dict):
        return value
    return {name: lean for name, item in value.items() if (lean := without_nothing(item)) not in ([], {}, None)}


def test_what_people_leave_out_has_the_types_defaults() -> None:
    """Also where the schema gives none: then the type's own is nothing."""
    optional = [name for name in SPEC.properties if name not in SPEC.required]
    assert {name for name in optional if SPEC.properties[name].default is None} == set()


@declared("Amounts.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Settings of the kinds that a task may take over."""

    most: Annotated[int, "At most.", Declared(minimum=1, maximum=9, defaulted=True)] = 3
    strict: Annotated[bool, "To the letter.", Declared(defaulted=True)] = False


@declared("Takes.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What takes them over from input that was validated."""

    amounts: Annotated[Amounts, RESOLVED] = Amounts()


def test_of_what_a_task_takes_over_only_type_and_size_are_declared() -> None:
    taken = schema_of(Takes).properties["amounts"]

    assert taken.properties == {
        "most": Schema(type=Type.INTEGER, minimum=1, maximum=9),
        "strict": Schema(type=Type.BOOLEAN),
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_columns_have_the_types_of_their_values(kind: Kind) -> None:
    """Else the API server leaves the cell empty."""
    for column in kind.columns:
        if column.path.startswith(".metadata"):
            continue
        schema = Schema(type=Type.OBJECT, properties={"spec": kind.spec, "status": kind.status})
        for step in column.path.replace("[0]", "[]").replace('[?(@.type=="Ready")]', "[]").lstrip(".").split("."):
            schema = schema.properties[step.removesuffix("[]")]
            schema = schema.items or schema
        assert schema.type == {"date": Type.STRING}.get(column.type, column.type), column.path
        assert column.type != "date" or schema.format


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_manifests_differ_in_rules_only(kind: Kind) -> None:
    ruled, plain = (
        yaml.safe_load((folder / f"{kind.plural}.yaml").read_text())
        for folder in (generate_crds.CRDS, generate_crds.CRDS / "without-cel")
    )
    assert ruled != plain
    assert without_rules(ruled) == plain
    assert without_rules(plain) == plain


def without_rules(value: Any) -> Any:
    match value:
        case dict():
            return {k: without_rules(v) for k, v in value.items() if k != "x-kubernetes-validations"}
        case list():
            return [without_rules(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_everything_is_bounded(kind: Kind) -> None:
    """Whatever somebody writes, objects stay small and rules cheap."""
    assert list(unbounded(kind.spec, "spec")) == []
    assert list(unbounded(kind.status, "status")) == []


def unbounded(schema: Schema, path: str) -> Iterator[str]:
    bounded = schema.max_length is not None or schema.enum or schema.format
    if schema.type is Type.STRING and not bounded:
        yield path
    for name, child in schema.properties.items():
        yield from unbounded(child, f"{path}.{name}")
    if schema.items is not None:
        yield from unbounded(schema.items, path)


def test_a_full_status_fits() -> None:
    """The API server stores no object above 1.5 MiB; ours stays far below, so that it can be written often."""
    ours = replace(STATUS.properties["conditions"], max_items=8)
    assert weight(replace(STATUS, properties={**STATUS.properties, "conditions": ours})) < 64 * 1024


def weight(schema: Schema) -> int:
    """Bytes of the largest value, in ASCII."""
    match schema.type:
        case Type.STRING:
            return 2 + max(schema.max_length or 0, 24, *map(len, schema.enum))
        case Type.OBJECT:
            return 2 + sum(len(name) + 4 + weight(child) for name, child in schema.properties.items())
        case Type.MAP:
            return 2 + (schema.max_properties or 0) * (64 + 4 + weight(schema.of("")))
        case Type.ARRAY:
            return 2 + (schema.max_items or 0) * (1 + weight(schema.of(0)))
        case _:
            return 8
