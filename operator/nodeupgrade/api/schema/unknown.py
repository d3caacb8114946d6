"""Finds unknown fields, such as misspelled ones. API servers drop them silently, so they have no effect."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from nodeupgrade.api.schema.model import ArraySchema, MapSchema, ObjectSchema, Problem, Schema


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
