"""Validates a value against a schema. Each problem has the path, what is wrong, and what to write instead."""

import re
from collections.abc import Hashable, Iterator
from copy import deepcopy
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never

from nodeupgrade.api.field import ListType
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.derive import (
    ABSENT,
    ArraySchema,
    BooleanSchema,
    IntegerSchema,
    IntOrStringSchema,
    MapSchema,
    NumberSchema,
    ObjectSchema,
    Problem,
    Schema,
    StringSchema,
)
from nodeupgrade.api.schema.openapi import PERCENT

if TYPE_CHECKING:
    import cel

_SHOWN = 60


def validate(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield all problems of a filled value. As with CEL, rules are evaluated only if the shape is valid."""
    shape = tuple(_shape(schema, value, path))
    yield from shape
    if all(problem.warning for problem in shape):
        for rule in schema.rules:
            if not holds(rule.cel, schema, value):
                more = " (API servers from 1.25 on reject it)" if rule.advisory else ""
                yield Problem(path, f"{rule.message}{more}", warning=rule.advisory)
        for check in schema.checks:
            if message := check(value):
                yield Problem(path, message)


def _shape(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    match schema:
        case ObjectSchema():
            yield from _object(schema, value, path)
        case MapSchema():
            yield from _map(schema, value, path)
        case ArraySchema():
            yield from _array(schema, value, path)
        case StringSchema():
            yield from _string(schema, value, path)
        case IntegerSchema() | NumberSchema() | BooleanSchema() | IntOrStringSchema():
            if not _is_fine_scalar(schema, value):
                yield _wrong(schema, value, path)
        case _:
            assert_never(schema)


def _is_fine_scalar(schema: IntegerSchema | NumberSchema | BooleanSchema | IntOrStringSchema, value: Any) -> bool:
    match schema:
        case IntegerSchema(minimum=least, maximum=most):
            return _is_integer(value) and (least is None or value >= least) and (most is None or value <= most)
        case NumberSchema():
            return isinstance(value, float) or _is_integer(value)
        case BooleanSchema():
            return isinstance(value, bool)
        case IntOrStringSchema(maximum=most):
            return 1 <= value <= most if _is_integer(value) else _matches(PERCENT, value)
        case _:
            assert_never(schema)


def _object(schema: ObjectSchema, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(schema, value, path)
        return
    for name, child in schema.properties.items():
        if name in value:
            yield from validate(child, value[name], f"{path}.{name}")
        elif name in schema.required:
            yield Problem(f"{path}.{name}", f"it is missing; write {_expected(child)}")


def _map(schema: MapSchema, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(schema, value, path)
        return
    yield from _length(len(value), schema.min_properties, schema.max_properties, path)
    for key, item in value.items():
        yield from validate(schema.additional_properties, item, f"{path}[{key}]")


def _array(schema: ArraySchema, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield _wrong(schema, value, path)
        return
    yield from _length(len(value), 0, schema.max_items, path)
    seen, others = set[Any](), list[Any]()  # others: what only a wrong type can be
    for index, item in enumerate(value):
        yield from validate(schema.items, item, f"{path}[{index}]")
        identity = (
            item.get(schema.list_map_key) if schema.list_type is ListType.MAP and isinstance(item, dict) else item
        )
        if schema.list_type is ListType.ATOMIC:
            continue
        known = seen if isinstance(identity, Hashable) else others
        if identity in known:
            where = f"{path}[{index}].{schema.list_map_key}" if schema.list_map_key else f"{path}[{index}]"
            yield Problem(where, f"{shown(identity)} occurs twice; each must be unique")
        seen.add(identity) if known is seen else others.append(identity)


def _length(actual: int, least: int, most: int, path: str) -> Iterator[Problem]:
    if actual < least:
        yield Problem(path, f"it is empty; write at least {least}, or leave it out")
    if actual > most:
        yield Problem(path, f"{actual} are too many; write at most {most}")


def _string(schema: StringSchema, value: Any, path: str) -> Iterator[Problem]:
    if schema.max_length is not None and isinstance(value, str) and len(value) > schema.max_length:
        yield Problem(path, f"it has {len(value)} characters; write at most {schema.max_length}")
    elif not _is_fine_string(schema, value):
        yield _wrong(schema, value, path)


def _is_fine_string(schema: StringSchema, value: Any) -> bool:
    if not isinstance(value, str) or len(value) < schema.min_length or (schema.enum and value not in schema.enum):
        return False
    return (not schema.pattern or _matches(schema.pattern, value)) and (not schema.format or _is_time(value))


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # ASCII: in RE2, which the API server uses, \s matches only ASCII.
    return re.compile(pattern, re.ASCII)


def _wrong(schema: Schema, value: Any, path: str) -> Problem:
    return Problem(path, f"{shown(value)} is not possible; write {_expected(schema)}")


def shown(value: Any) -> str:
    """Format a value for a message, as people would write it in YAML; long text is truncated."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str() if len(value) > _SHOWN:
            return repr(f"{value[:_SHOWN]}…")
        case _:
            return repr(value)


def _expected(schema: Schema) -> str:
    if schema.expected:
        return schema.expected
    match schema:
        case StringSchema(enum=(*values,)) if values:
            return f"{', '.join(values[:-1])} or {values[-1]}" if len(values) > 1 else values[0]
        case StringSchema(max_length=most):
            return "a text" if most is None else f"a text of at most {most} characters"
        case IntegerSchema(minimum=least, maximum=most):
            limits = ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
            return f"a whole number{limits}"
        case NumberSchema():
            return "a number"
        case BooleanSchema():
            return "true or false"
        case ObjectSchema(properties=properties):
            return f"an object with {', '.join(properties)}"
        case MapSchema():
            return "an object"
        case ArraySchema():
            return "a list"
        case IntOrStringSchema(maximum=most):
            return f"a number from 1 to {most} or a percentage from 1% to 100%"
        case _:
            assert_never(schema)


# Finds unknown fields, such as misspelled ones. API servers drop them silently, so they have no effect.


def unknown(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield a problem for each field that would be dropped, with the field that was probably meant."""
    match schema, value:
        case ObjectSchema(properties=properties), dict():
            for name, item in value.items():
                if name in properties:
                    yield from unknown(properties[name], item, f"{path}.{name}")
                else:
                    yield Problem(f"{path}.{name}", f"there is no such field; {_meant(str(name), tuple(properties))}")
        case MapSchema(additional_properties=inner), dict():
            for key, item in value.items():
                yield from unknown(inner, item, f"{path}[{key}]")
        case ArraySchema(items=inner), list():
            for index, item in enumerate(value):
                yield from unknown(inner, item, f"{path}[{index}]")
        case _:
            pass


def _meant(name: str, known: tuple[str, ...]) -> str:
    spelled = {field.lower(): field for field in known}
    close = get_close_matches(name.lower(), spelled, n=1)
    return f"did you mean {spelled[close[0]]}?" if close else f"known are {', '.join(known)}"


# Finds forbidden changes between an object and its replacement: the rules about a change.


def changes(schema: Schema, new: Any, old: Any, path: str) -> Iterator[Problem]:  # Any: JSON
    """Yield the forbidden changes between two values, comparing fields that both have, as the API server does.

    Both values must be filled, valid and ordered.
    """
    for transition in schema.transitions:
        if not holds(transition.cel, schema, new, old):
            yield Problem(path, transition.message)
    match schema:
        case ObjectSchema(properties=properties):
            for name, child in properties.items():
                if name in new and name in old:
                    yield from changes(child, new[name], old[name], f"{path}.{name}")
        case MapSchema(additional_properties=value):
            for key in new.keys() & old.keys():
                yield from changes(value, new[key], old[key], f"{path}[{key}]")
        case ArraySchema(items=item, list_type=ListType.MAP, list_map_key=key):
            before = {each[key]: each for each in old}
            for index, each in enumerate(new):
                if each[key] in before:
                    yield from changes(item, each, before[each[key]], f"{path}[{index}]")
        case _:
            pass


# Defaulting and pruning, as the API server does before validation.


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that is not yet validated
    """Return the value with defaults filled in, and nulls and unknown fields removed.

    Values of the wrong type are left as they are, for validation to report.
    """
    match schema, value:
        case ObjectSchema(), dict():
            return _filled_object(schema, value)
        case MapSchema(additional_properties=inner), dict():
            return {key: filled(inner, item) for key, item in value.items() if item is not None}
        case ArraySchema(items=inner), list():
            return [filled(inner, item) for item in value]
        case _:
            return value


def _filled_object(schema: ObjectSchema, value: Json) -> Json:
    result: Json = {}
    for name, child in schema.properties.items():
        if value.get(name) is not None:
            result[name] = filled(child, value[name])
        elif child.default is not ABSENT:
            result[name] = filled(child, deepcopy(child.default))
    return result


def ordered(schema: Schema, value: Any) -> Any:
    """Return a filled and valid value with its sets sorted, since CEL's ``==`` ignores the order of sets, too."""
    match schema:
        case ObjectSchema(properties=properties):
            return {name: ordered(properties[name], item) for name, item in value.items()}
        case MapSchema(additional_properties=inner):
            return {key: ordered(inner, item) for key, item in value.items()}
        case ArraySchema(items=inner, list_type=list_type):
            items = [ordered(inner, item) for item in value]
            return sorted(items) if list_type is ListType.SET else items
        case _:
            return value


def without_defaults(schema: Schema, value: Any) -> Any:
    """Return a filled value without the fields that have their default value.

    So two objects with the same meaning are equal, even if one was stored before a field with a default existed.
    """
    match schema, value:
        case ObjectSchema(properties=properties), dict():
            explicit = {name: item for name, item in value.items() if not _is_default(properties[name], item)}
            return {name: without_defaults(properties[name], item) for name, item in explicit.items()}
        case ArraySchema(items=inner), list():
            return [without_defaults(inner, item) for item in value]
        case _:
            return value


def _is_default(schema: Schema, value: Any) -> bool:
    return schema.default is not ABSENT and bool(value == filled(schema, schema.default))


# Evaluates the rules of a schema where no API server does: before Kubernetes 1.25, and without a cluster.
#
# The library is loaded when the first rule is evaluated: most commands, and the processes on a node, evaluate none.


def holds(rule: str, schema: Schema, value: Any, *old: Any) -> bool:  # Any: JSON of the schema that carries the rule
    """Report whether a value meets a rule in CEL; one that cannot be evaluated is not met, as on an API server.

    Args:
        rule: The expression, with ``self`` and, if it is about a change, ``oldSelf``.
        schema: The schema that carries the rule.
        value: The value, filled and of valid shape.
        old: The value that it replaces, if the rule is about that.
    """
    variables = dict(zip(("self", "oldSelf"), (_typed(schema, each) for each in (value, *old)), strict=False))
    try:
        return _program(rule).execute(variables) is True
    except (ValueError, TypeError, RuntimeError, KeyError, OverflowError):
        return False


@cache
def _program(rule: str) -> "cel.Program":
    import cel  # noqa: PLC0415 - a third of a second

    return cel.compile(rule)


def _typed(schema: Schema, value: Any) -> Any:
    """Return an object whose properties of the format date-time are points in time, as they are in CEL."""
    if not isinstance(schema, ObjectSchema):
        return value
    times = {name for name, child in schema.properties.items() if isinstance(child, StringSchema) and child.format}
    return {name: datetime.fromisoformat(item) if name in times else item for name, item in value.items()}
