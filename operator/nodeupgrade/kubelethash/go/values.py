"""Reads decoded JSON values as Go would, and raises Misfit for values that do not fit."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite

from ..errors import Misfit
from . import quantity
from .quantity import Quantity

_NAMES = {
    str: "a string", bool: "true or false", int: "a number", float: "a fraction",
    list: "a list", tuple: "a list", dict: "a map", type(None): "nothing",
}  # fmt: skip


def misfit(value: object, wanted: str) -> Misfit:
    """Return the error for a value of the wrong type."""
    actual = _NAMES.get(type(value), type(value).__name__)
    return Misfit(f"{wanted} is expected, not {actual}")


def text(value: object) -> str:
    """Read a Go string."""
    if not isinstance(value, str):
        raise misfit(value, "a string")
    return value


def boolean(value: object) -> bool:
    """Read a Go bool."""
    if type(value) is not bool:
        raise misfit(value, "true or false")
    return value


def int32(value: object) -> int:
    """Read a Go int32."""
    if type(value) is not int:
        raise misfit(value, "a whole number")
    if not -(2**31) <= value < 2**31:
        raise Misfit("a number is beyond 32 bits")
    return value


def int64(value: object) -> int:
    """Read a Go int64."""
    if type(value) is not int:
        raise misfit(value, "a whole number")
    if not -(2**63) <= value < 2**63:
        raise Misfit("a number is beyond 64 bits")
    return value


def int_or_string(value: object) -> int | str:
    """Read Go's intstr.IntOrString, such as a probe's port."""
    if type(value) is str:
        return value
    if type(value) is int:
        return int32(value)
    raise misfit(value, "a number or a name")


def mapping(value: object) -> Mapping[str, object]:
    """Read a JSON object."""
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return value
    raise misfit(value, "a map")


def sequence(value: object) -> Sequence[object]:
    """Read a JSON array."""
    if type(value) is list or type(value) is tuple:
        return value
    raise misfit(value, "a list")


def resource_quantity(value: object) -> Quantity:
    """Read a resource.Quantity, written as text or, in manifests, as an integer."""
    if type(value) is str:
        return quantity.parse(value.strip(quantity.BLANKS))
    if type(value) is int:
        return quantity.parse(str(value))
    if type(value) is float and isfinite(value):
        return quantity.parse(json_number(value))
    raise misfit(value, "a quantity")


def json_number(value: float) -> str:
    """Return a fraction as Go writes it in JSON, with the same digits as Python: as few as identify it."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace("e-0", "e-")


def rendered_items(value: object, render: Callable[[object], str]) -> list[str]:
    """Render the items of a JSON array; a Misfit says which of them it is about."""
    parts = []
    for index, item in enumerate(sequence(value)):
        try:
            parts.append(render(item))
        except Misfit as error:
            raise error.inside(index) from None
    return parts


def rendered_members(value: object, render: Callable[[str, object], str]) -> list[str]:
    """Render the members of a JSON object, sorted by key as Go does; a Misfit says which of them it is about."""
    given = mapping(value)
    parts = []
    for key in sorted(map(text, given)):
        try:
            parts.append(render(key, given[key]))
        except Misfit as error:
            raise error.inside(key) from None
    return parts
