"""Reads text that others write as the kernel, systemd and Go read it.

Python's own methods follow Unicode: to them U+000B, U+0085 and U+2028 end a line, U+3000 is a blank, and ``٣`` and
``1_0`` are numbers. Whoever names a file, a process or a mount could so add a line to a table, or hide one.
tests/architecture forbids these methods elsewhere.
"""

import json
import re
import tomllib
from typing import Any

BLANKS = " \t\n\r"
"""What separates words: systemd's WHITESPACE. Tables of the kernel have the first three."""
_WORD = re.compile(f"[^{BLANKS}]+")
_NUMBER = re.compile("[0-9]{1,20}")
"""2^64 has 20 digits."""


def lines(text: str) -> list[str]:
    """Split at line feeds, and at nothing else. The last line may lack its own."""
    *whole, rest = text.split("\n")
    return [*whole, rest] if rest else whole


def words(text: str) -> list[str]:
    """Split at blanks, tabs and ends of lines."""
    return _WORD.findall(text)


def trimmed(text: str) -> str:
    """Remove blanks, tabs and ends of lines at both ends."""
    return text.strip(BLANKS)


def one_line(text: str) -> str:
    """Join the words of a text by single blanks, for messages."""
    return " ".join(words(text))


def number(text: str) -> int | None:
    """Return the value of decimal digits (ASCII); ``None`` for any other text, or a number far above 64 bits."""
    return int(text) if _NUMBER.fullmatch(text) else None


def integer(value: object) -> int:
    """Return an integer that was read as JSON, or as YAML, where kubelets take ``1.0`` for one, too.

    Raises:
        ValueError: it is something else: 1.5, true, "1".
    """
    if type(value) is int or (type(value) is float and value.is_integer()):
        return int(value)
    raise ValueError(f"{str(value)[:80]!r} is not an integer")


def parse_json(data: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: it is no TOML, or nested too deeply.
    """
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
