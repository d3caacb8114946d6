"""State files are JSON objects, whose field names a kubelet compares without regard to case."""

from collections.abc import Mapping
from typing import Any

from nodeupgrade.text import parse_json


def fields(data: bytes | None) -> Mapping[str, Any]:
    """Return the fields of a JSON object, with names in lower case; empty if there is none or it is damaged."""
    try:
        return read_fields(data or b"")
    except ValueError:
        return {}


def read_fields(data: bytes) -> Mapping[str, Any]:
    """Return the fields of a JSON object, with names in lower case.

    Raises:
        ValueError: it is not a JSON object.
    """
    document = parse_json(data)
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - it is content, not a type
    return {name.lower(): value for name, value in document.items()}
