"""Reads text that others write as the kernel, systemd and Go read it.

Python's own methods follow Unicode: to them U+000B, U+0085 and U+2028 end a line, U+3000 is a blank, and ``٣`` and
``1_0`` are numbers. Whoever names a file, a process or a mount could so add a line to a table, or hide one.
tests/architecture forbids these methods elsewhere.
"""

import base64
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from math import isinf
from typing import Any, NoReturn

BLANKS = " \t\n\r"
"""What separates words: systemd's WHITESPACE. Tables of the kernel have the first three."""
_WORD = re.compile(f"[^{BLANKS}]+")
_NUMBER = re.compile("[0-9]{1,20}")
"""2^64 has 20 digits."""
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_STEP = re.compile(f"([0-9]*)[.]?([0-9]*)({'|'.join(_UNITS)})")
_DURATION = re.compile(f"([-+]?)((?:(?:[0-9]{{1,400}}+[.]?[0-9]*|[.][0-9]+)(?:{'|'.join(_UNITS)}))+|0)")
_DAY = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
_CLOCK = "([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
_ZONE = "(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))"
_TIME = re.compile(f"{_DAY}T{_CLOCK}{_ZONE}")


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
    """Parse JSON. Half of a surrogate pair stays what it is, so that names of files survive our own files.

    Raises:
        ValueError: it is no JSON in UTF-8, has a number beyond 64 bits of a float, or is nested too deeply.
    """
    return _parsed(data, None)


def _parsed(data: bytes | str, hook: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None) -> Any:
    try:
        text = data.decode() if isinstance(data, bytes) else data
        return json.loads(text, parse_constant=_refuse, parse_float=_fraction, object_pairs_hook=hook)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _fraction(text: str) -> float:
    if isinf(value := float(text)):
        raise ValueError(f"{text[:40]} is beyond 64 bits")
    return value


_VALUES = json.JSONDecoder(parse_constant=_refuse, parse_float=_fraction)


def parse_json_at(text: str, at: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at this place, whatever follows it; return it, and the place where it ends.

    Raises:
        ValueError: as parse_json(); or the text ends before it does.
    """
    try:
        return _VALUES.raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_pairs(data: bytes | str) -> list[tuple[str, Any]]:
    """Parse a JSON object into its names and values, in their order and with those that are repeated.

    Raises:
        ValueError: as parse_json(); or it is something else than an object.
    """
    outermost: list[tuple[str, Any]] = []

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs  # the last call is for the object that ends last
        return dict(pairs)

    if not isinstance(_parsed(data, hook), dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - it is content, not a type
    return outermost


def folded_name(name: str) -> str:
    """Return the name by which Go finds the field of a struct: without regard to case, of which ASCII has two more."""
    return name.lower().replace("ſ", "s")  # lower() makes k of the sign for kelvin


def struct_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields, by folded_name(), that Go's encoding/json leaves in a struct that was empty.

    Of a repeated name the last value counts, but null changes only lists and maps, and maps are joined.

    Raises:
        ValueError: a name is repeated with a value of another type, one of which no field takes.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        before = found.get(key := folded_name(name))
        if before is not None and value is not None and _kind(before) is not _kind(value):
            raise ValueError(f"{name[:80]!r} has values of several types")
        if isinstance(before, dict) and isinstance(value, dict):
            found[key] = before | value
        elif value is not None or isinstance(before, dict | list | None):
            found[key] = value
    return found


def _kind(value: object) -> type[object]:
    return float if type(value) is int else type(value)


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: it is no TOML, or nested too deeply.
    """
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_base64(text: object) -> bytes:
    """Decode base64 as Go does: ends of lines do not count, padding must be complete.

    Raises:
        ValueError: it is not text, or not base64.
    """
    plain = text.replace("\r", "").replace("\n", "") if isinstance(text, str) else "="
    if _BASE64.fullmatch(plain) is None:
        raise ValueError("it is not base64")
    return base64.b64decode(plain)


def parse_nanoseconds(text: str) -> int:
    """Parse a duration as Go's time.ParseDuration does, with its rounding.

    Raises:
        ValueError: it is none, or beyond 292 years.
    """
    if (found := _DURATION.fullmatch(text)) is None:
        raise ValueError(f"{text[:80]!r} is not a duration")
    total = sum(_part(int(whole or 0), rest, _UNITS[unit]) for whole, rest, unit in _STEP.findall(found[2]))
    if total > 2**63 - (found[1] != "-"):
        raise ValueError(f"{text[:80]!r} is too long for a duration")
    return -total if found[1] == "-" else total


def _part(whole: int, rest: str, unit: int) -> int:
    kept = rest[:19] if int(rest[:19] or 0) <= 2**63 else rest[:18]
    return whole * unit + int(float(int(kept or 0)) * (unit / float(10 ** len(kept))))


def parse_time(text: object) -> datetime:
    """Parse a time of RFC 3339 as Go parses a ``metav1.Time``; what is below a microsecond is cut off.

    Raises:
        ValueError: it is not one, or not within the years 1 to 9999.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_CACHED:
        return _moment(text)
    return _cached_moment(text)


def _moment(text: object) -> datetime:
    if (found := _TIME.fullmatch(text) if isinstance(text, str) else None) is None:
        raise ValueError(f"{str(text)[:80]!r} is not a time of RFC 3339")
    *parts, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        year, month, day, hour, minute, second = map(int, parts)
        micros = int((fraction or "0")[:6].ljust(6, "0"))
        moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
        return moment + offset if sign == "-" else moment - offset
    except OverflowError as error:
        raise ValueError(f"{text!r} is not within the years 1 to 9999") from error


_LONGEST_CACHED = 40
_cached_moment = lru_cache(maxsize=4096)(_moment)
# The objects of a fleet say the same times again and again.


def known_time(text: object) -> datetime | None:
    """Parse a time as parse_time() does; ``None`` for other text, and in the years 1 and 9999.

    Go writes a time that is not set as the first of them. To the other, which any node may report, no period can be
    added.
    """
    try:
        moment = parse_time(text)
    except ValueError:
        return None
    return moment if 1 < moment.year < MAXYEAR else None
