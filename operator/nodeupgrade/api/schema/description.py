"""What ``kubectl explain`` shows of a field: its description, with default, unit and bounds."""

import json
from collections.abc import Iterator

from nodeupgrade.api.schema.derive import DURATION, Schema, Type


def described(schema: Schema) -> str:
    """Return the description with what the schema says besides; empty if the field has none."""
    return " ".join((schema.description, *_facts(schema))) if schema.description else ""


def _facts(schema: Schema) -> Iterator[str]:
    if schema.default is not None and (shown := _shown(schema.default)):
        yield f"Default: {shown}."
    match schema:
        case Schema(type=Type.STRING, pattern=pattern) if pattern == DURATION:
            yield "A duration in hours, minutes and seconds, such as 1h30m."
        case Schema(type=Type.INT_OR_STRING, maximum=most):
            yield f"A number from 1 to {most}, or a percentage from 1% to 100%."
        case Schema(minimum=int(least), maximum=int(most)):
            yield f"From {least} to {most}."
        case Schema(minimum=int(least)):
            yield f"At least {least}."
        case Schema(maximum=int(most)):
            yield f"At most {most}."
        case Schema(type=Type.ARRAY, max_items=int(most)):
            yield f"At most {most} items."
        case Schema(type=Type.MAP, max_properties=int(most)):
            yield f"At most {most} entries."
        case Schema(type=Type.STRING, enum=(), max_length=int(most)):
            yield f"At most {most} characters."


def _shown(default: object) -> str:
    """Return a default as people write it; empty for an object or a list that is empty, whose fields have their own."""
    return "" if default in ({}, []) else default if isinstance(default, str) else json.dumps(default)
