"""Finds unknown fields, such as misspelled ones. API servers drop them silently, so they have no effect."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from nodeupgrade.api.schema.derive import Problem, Schema, Type


def unknown(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield a problem for each unknown field, with a suggestion."""
    match schema.type, value:
        case ((Type.OBJECT | Type.MAP), dict()):
            for name, item in value.items():
                if schema.type is Type.MAP:
                    yield from unknown(schema.of(name), item, f"{path}[{name}]")
                elif name in schema.properties:
                    yield from unknown(schema.of(name), item, f"{path}.{name}")
                else:
                    meant = _meant(str(name), tuple(schema.properties))
                    yield Problem(f"{path}.{name}", f"unknown field; {meant}")
        case Type.ARRAY, list():
            for index, item in enumerate(value):
                yield from unknown(schema.of(index), item, f"{path}[{index}]")


def _meant(name: str, known: tuple[str, ...]) -> str:
    spelled = {field.lower(): field for field in known}
    close = get_close_matches(name.lower(), spelled, n=1)
    return f"did you mean {spelled[close[0]]}?" if close else f"the fields here are {', '.join(known)}"
