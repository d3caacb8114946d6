"""Prints values as go-spew prints the Go values that a kubelet keeps them in."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from nodeupgrade.text import parse_base64

Printer = Callable[[Any], str]
_ABSENT = object()
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Go reads half a character as U+FFFD."""
_BYTES = tuple(map(str, range(256)))
"""Each number once: strings of their own for megabytes of bytes would take sixty times as much."""


class UnknownFieldError(ValueError):
    """A struct has a field that is not known here."""


class MalformedStateError(ValueError):
    """A value is not of the type that Go reads it as."""


def string(value: Any) -> str:
    """Print a Go string."""
    return "" if value in (None, _ABSENT) else _SURROGATE.sub("\ufffd", of_kind(str, value))


def number(value: Any) -> str:
    """Print a Go integer."""
    return "0" if value in (None, _ABSENT) else str(of_kind(int, value))


def byte_slice(value: Any) -> str:
    """Print a ``[]byte``, which JSON has in base64."""
    if value in (None, _ABSENT):
        return "<nil>"
    try:
        return f"[{' '.join(map(_BYTES.__getitem__, parse_base64(value)))}]"
    except ValueError as error:
        raise MalformedStateError from error


def slice_of(item: Printer, absent: str = "<nil>") -> Printer:
    """Return a printer of slices of such items; ``absent`` is printed where JSON has no such field."""

    def print_(value: Any) -> str:
        if value is None or value is _ABSENT:
            return "<nil>" if value is None else absent
        return f"[{' '.join(map(item, of_kind(list, value)))}]"

    return print_


def map_of(item: Printer, key: Callable[[str], Any] = string, absent: str = "<nil>") -> Printer:
    """Return a printer of maps, sorted by key; ``absent`` is printed where JSON has no such field.

    Of names that Go reads as the same key, the last counts.
    """

    def print_(value: Any) -> str:
        if value is None or value is _ABSENT:
            return "<nil>" if value is None else absent
        try:
            given = {key(name): each for name, each in of_kind(dict, value).items()}
        except ValueError as error:
            raise MalformedStateError from error
        return f"map[{' '.join(f'{name}:{item(each)}' for name, each in sorted(given.items()))}]"

    return print_


def pointer_to(item: Printer) -> Printer:
    """Return a printer of pointers to such values."""
    return lambda value: "<nil>" if value is None else f"<*>{item(value)}"


def struct_of(**members: tuple[str, str, Printer]) -> Printer:
    """Print a struct: by Go's name of a field, its name in JSON, its type and how its value is printed."""

    def print_(value: Any) -> str:
        given = {name.lower(): each for name, each in of_kind(dict, value).items()}
        if given.keys() - {key.lower() for key, _, _ in members.values()}:
            raise UnknownFieldError
        return members_of(members, given)

    return print_


def members_of(members: Mapping[str, tuple[str, str, Printer]], given: Mapping[str, Any]) -> str:
    """Print the members of a struct in their order."""
    shown = (
        f"{name}:({type_}){print_(given.get(key.lower(), _ABSENT))}" for name, (key, type_, print_) in members.items()
    )
    return f"{{{' '.join(shown)}}}"


def of_kind(kind: type, value: Any) -> Any:
    """Return a value of the kind that Go reads.

    Raises:
        MalformedStateError: It is of another kind.
    """
    if type(value) is not kind:
        raise MalformedStateError
    return value
