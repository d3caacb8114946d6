"""State files are JSON objects, whose field names a kubelet compares without regard to case."""

from collections.abc import Mapping
from typing import Any

from nodeupgrade.text import parse_pairs, struct_fields


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
    return struct_fields(parse_pairs(data))
