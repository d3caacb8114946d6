"""Validates a value against a schema. Each problem has the path, what is wrong, and what to write instead."""

import re
from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.derive import Problem, Schema, Type

if TYPE_CHECKING:
    import cel

_SHOWN = 60


def validate(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield all problems of a filled value. As with CEL, rules are evaluated only if the shape is valid."""
    shape = tuple(_shape(schema, value, path))
    yield from shape
    if all(problem.warning for problem in shape):
        for rule in schema.rules:
            if not rule.transition and not holds(rule.cel, schema, value):
                more = " (API servers from 1.25 on reject it)" if rule.advisory else ""
                yield Problem(path, f"{rule.message}{more}", warning=rule.advisory)
        for check in schema.checks:
            if message := check(value):
                yield Problem(path, message)


def _shape(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    match schema.type, value:
        case Type.OBJECT, dict():
            yield from _object(schema, value, path)
        case Type.MAP, dict():
            yield from _length(len(value), schema.min_properties, schema.max_properties, path)
            for key, item in value.items():
                yield from validate(schema.of(key), item, f"{path}[{key}]")
        case Type.ARRAY, list():
            yield from _array(schema, value, path)
        case Type.STRING, str() if schema.max_length is not None and len(value) > schema.max_length:
            yield Problem(path, f"it has {len(value)} characters; write at most {schema.max_length}")
        case _ if not _is_fine_scalar(schema, value):
            yield Problem(path, f"{shown(value)} is not possible; write {_expected(schema)}")


def _is_fine_scalar(schema: Schema, value: Any) -> bool:
    match schema.type:
        case Type.STRING:
            return isinstance(value, str) and _is_fine_string(schema, value)
        case Type.INT_OR_STRING if isinstance(value, str):
            return _matches(schema.pattern, value)
        case Type.INTEGER | Type.INT_OR_STRING:
            least, most = schema.minimum, schema.maximum
            return _is_integer(value) and (least is None or value >= least) and (most is None or value <= most)
        case Type.NUMBER:
            return isinstance(value, float) or _is_integer(value)
        case Type.BOOLEAN:
            return isinstance(value, bool)
        case _:
            return False


def _object(schema: Schema, value: Json, path: str) -> Iterator[Problem]:
    for name, child in schema.properties.items():
        if name in value:
            yield from validate(child, value[name], f"{path}.{name}")
        elif name in schema.required:
            yield Problem(f"{path}.{name}", f"it is missing; write {_expected(child)}")


def _array(schema: Schema, value: list[Any], path: str) -> Iterator[Problem]:
    yield from _length(len(value), 0, schema.max_items, path)
    seen, others = set[Any](), list[Any]()  # others: what only a wrong type can be
    for index, item in enumerate(value):
        yield from validate(schema.of(index), item, f"{path}[{index}]")
        keyed = schema.list_type is ListType.MAP and isinstance(item, dict)
        identity = item.get(schema.list_map_key) if keyed else item
        if schema.list_type is ListType.ATOMIC:
            continue
        known = seen if isinstance(identity, Hashable) else others
        if identity in known:
            where = f"{path}[{index}].{schema.list_map_key}" if schema.list_map_key else f"{path}[{index}]"
            yield Problem(where, f"{shown(identity)} occurs twice; each must be unique")
        seen.add(identity) if known is seen else others.append(identity)


def _length(actual: int, least: int, most: int | None, path: str) -> Iterator[Problem]:
    if actual < least:
        yield Problem(path, f"it is empty; write at least {least}, or leave it out")
    if most is not None and actual > most:
        yield Problem(path, f"{actual} are too many; write at most {most}")


def _is_fine_string(schema: Schema, value: str) -> bool:
    if len(value) < schema.min_length or (schema.enum and value not in schema.enum):
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


def _matches(pattern: str, value: str) -> bool:
    # ASCII: in RE2, which the API server uses, \s matches only ASCII.
    return re.fullmatch(pattern, value, re.ASCII) is not None


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
    least, most = schema.minimum, schema.maximum
    match schema.type:
        case _ if schema.expected:
            return schema.expected
        case Type.STRING if schema.enum:
            *others, last = schema.enum
            return f"{', '.join(others)} or {last}" if others else last
        case Type.STRING:
            return "a text" if schema.max_length is None else f"a text of at most {schema.max_length} characters"
        case Type.INTEGER:
            limits = ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
            return f"a whole number{limits}"
        case Type.OBJECT:
            return f"an object with {', '.join(schema.properties)}"
        case _:
            return _EXPECTED[schema.type]


_EXPECTED = {Type.NUMBER: "a number", Type.BOOLEAN: "true or false", Type.MAP: "an object", Type.ARRAY: "a list"}


# Finds unknown fields, such as misspelled ones. API servers drop them silently, so they have no effect.


def unknown(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield a problem for each field that would be dropped, with the field that was probably meant."""
    match schema.type, value:
        case ((Type.OBJECT | Type.MAP), dict()):
            for name, item in value.items():
                if schema.type is Type.MAP:
                    yield from unknown(schema.of(name), item, f"{path}[{name}]")
                elif name in schema.properties:
                    yield from unknown(schema.of(name), item, f"{path}.{name}")
                else:
                    meant = _meant(str(name), tuple(schema.properties))
                    yield Problem(f"{path}.{name}", f"there is no such field; {meant}")
        case Type.ARRAY, list():
            for index, item in enumerate(value):
                yield from unknown(schema.of(index), item, f"{path}[{index}]")


def _meant(name: str, known: tuple[str, ...]) -> str:
    spelled = {field.lower(): field for field in known}
    close = get_close_matches(name.lower(), spelled, n=1)
    return f"did you mean {spelled[close[0]]}?" if close else f"known are {', '.join(known)}"


# Finds forbidden changes between an object and its replacement: the rules about a change.


def changes(schema: Schema, new: Any, old: Any, path: str) -> Iterator[Problem]:  # Any: JSON
    """Yield the forbidden changes between two values, comparing fields that both have, as the API server does.

    Both values must be filled, valid and ordered.
    """
    for rule in schema.rules:
        if rule.transition and not holds(rule.cel, schema, new, old):
            yield Problem(path, rule.message)
    match schema.type:
        case Type.OBJECT:
            for name, child in schema.properties.items():
                if name in new and name in old:
                    yield from changes(child, new[name], old[name], f"{path}.{name}")
        case Type.MAP:
            for key in new.keys() & old.keys():
                yield from changes(schema.of(key), new[key], old[key], f"{path}[{key}]")
        case Type.ARRAY if key := schema.list_map_key:
            before = {each[key]: each for each in old}
            for index, each in enumerate(new):
                if each[key] in before:
                    yield from changes(schema.of(index), each, before[each[key]], f"{path}[{index}]")


# Defaulting and pruning, as the API server does before validation.


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that is not yet validated
    """Return the value with defaults filled in, and nulls and unknown fields removed.

    Values of the wrong type are left as they are, for validation to report.
    """
    match schema.type, value:
        case Type.OBJECT, dict():
            given = {name: value.get(name) for name in schema.properties}
            known = {name: schema.of(name).default if item is None else item for name, item in given.items()}
            return rebuilt(schema, {name: item for name, item in known.items() if item is not None}, filled)
        case Type.MAP, dict():
            return rebuilt(schema, {key: item for key, item in value.items() if item is not None}, filled)
        case _:
            return rebuilt(schema, value, filled)


def rebuilt(schema: Schema, value: Any, change: Callable[[Schema, Any], Any]) -> Any:
    """Return a copy of a value in which everything inside is changed, each by its schema."""
    match schema.type, value:
        case ((Type.OBJECT | Type.MAP), dict()):
            return {name: change(schema.of(name), item) for name, item in value.items()}
        case Type.ARRAY, list():
            return [change(schema.of(index), item) for index, item in enumerate(value)]
        case _:
            return value


def ordered(schema: Schema, value: Any) -> Any:
    """Return a filled and valid value with its sets sorted, since CEL's ``==`` ignores the order of sets, too."""
    result = rebuilt(schema, value, ordered)
    return sorted(result) if schema.type is Type.ARRAY and schema.list_type is ListType.SET else result


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
    times = {name for name, child in schema.properties.items() if child.format}
    if not times:
        return value
    return {name: datetime.fromisoformat(item) if name in times else item for name, item in value.items()}
