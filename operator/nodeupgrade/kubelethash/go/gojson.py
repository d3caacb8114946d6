"""Renders a container as Go's `encoding/json` writes the core/v1 Container of a given minor (eras C and D).

The renderers are composed once per minor from the table of `schema`; rendering then only walks the container. Fields
that the minor does not know are dropped at every depth, as its protobuf decoder drops them.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from json.encoder import encode_basestring

from ..errors import Misfit
from . import values
from .schema import CONTAINER, STRUCTS, StructField, fields_of

Render = Callable[[object], str]

_UNCERTAIN = re.compile("[\b\f\ud800-\udfff]")
_HTML = re.compile("[<>&\u2028\u2029]")
_HTML_ESCAPES = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}


def container_json(container: Mapping[str, object], minor: int, *, manifest: bool = False) -> bytes:
    """Return the bytes that `json.Marshal` makes of the container.

    Args:
        container: as the API serves it, or a defaulted one from a manifest.
        minor: the kubelet's minor.
        manifest: the kubelet read it from a file, so resource quantities are rounded up to a thousandth here.

    Raises:
        Misfit: a value does not fit, or its rendering is not certain.
    """
    return _renderer(CONTAINER, minor, manifest)(container).encode()


def name_and_image_json(name: object, image: object) -> bytes:
    """Return the bytes of the map with name and image that kubelets hash from 1.31 on.

    Raises:
        Misfit: as for `container_json`.
    """
    parts = []
    for key, value in (("image", image), ("name", name)):
        try:
            parts.append(f'"{key}":{quoted("" if value is None else value)}')
        except Misfit as error:
            raise error.inside(key) from None
    return ("{" + ",".join(parts) + "}").encode()


def quoted(value: object) -> str:
    """Return a JSON string with Go's escapes.

    Raises:
        Misfit: it is not text, not valid Unicode, or has a backspace or form feed, which Go 1.22 began to write
            differently.
    """
    text = values.text(value)
    if _UNCERTAIN.search(text):
        reason = "form feed or backspace in text" if "\b" in text or "\f" in text else "text that is not valid UTF-8"
        raise Misfit(f"there is {reason}, which kubelets do not all write alike")
    return _HTML.sub(lambda match: _HTML_ESCAPES[match[0]], encode_basestring(text))


@cache
def _renderer(type_: str, minor: int, manifest: bool) -> Render:
    if type_.startswith("*"):
        return _renderer(type_[1:], minor, manifest)
    if type_.startswith("[]"):
        render_item = _renderer(type_[2:], minor, manifest)
        return lambda value: "[" + ",".join(values.rendered_items(value, render_item)) + "]"
    if type_ in STRUCTS:
        return _struct(type_, minor, manifest)
    match type_:
        case "bool":
            return lambda value: "true" if values.boolean(value) else "false"
        case "int32":
            return lambda value: str(values.int32(value))
        case "int64":
            return lambda value: str(values.int64(value))
        case "IntOrString":
            return _int_or_string
        case "Quantity":
            return _quantity
        case "ResourceList":
            return partial(_resource_list, manifest=manifest)
        case _:
            return quoted


def _struct(name: str, minor: int, manifest: bool) -> Render:
    members = [_member(field, minor, manifest) for field in _flattened(name, minor)]

    def render(value: object) -> str:
        given = values.mapping(value)
        parts = []
        for key, label, render_field, absent, omitempty in members:
            item = given.get(key)
            if item is None:
                if absent:
                    parts.append(absent)
                continue
            try:
                text = render_field(item)
            except Misfit as error:
                raise error.inside(key) from None
            if item or not omitempty:
                parts.append(label + text)
        return "{" + ",".join(parts) + "}"

    return render


def _flattened(name: str, minor: int) -> list[StructField]:
    """Return the fields of a struct, with embedded structs replaced by their fields."""
    fields = []
    for field in fields_of(name, minor):
        fields += [field] if field.key else _flattened(field.type, minor)
    return fields


def _member(field: StructField, minor: int, manifest: bool) -> tuple[str, str, Render, str, bool]:
    """Return key, label, renderer, text if absent, and whether a zero value is left out."""
    label = f'"{field.key}":'
    render = _renderer(field.type, minor, manifest)
    # omitempty has no effect on structs, and for pointers it omits only nil.
    by_value = field.type in STRUCTS or field.type == "Quantity"
    absent = "" if field.omitempty and not by_value else label + _zero(field.type, render)
    return field.key, label, render, absent, field.omitempty and not by_value and not field.type.startswith("*")


def _zero(type_: str, render: Render) -> str:
    if type_.startswith("*"):
        return "null"
    if type_ in STRUCTS:
        return render({})
    match type_:
        case "int32" | "int64" | "IntOrString":
            return "0"
        case "Quantity":
            return '"0"'
        case _:
            return '""'


def _int_or_string(value: object) -> str:
    port = values.int_or_string(value)
    return quoted(port) if isinstance(port, str) else str(port)


def _quantity(value: object) -> str:
    return f'"{values.resource_quantity(value).text()}"'


def _resource_list(value: object, *, manifest: bool) -> str:
    def render(name: str, amount: object) -> str:
        quantity = values.resource_quantity(amount)
        return f'{quoted(name)}:"{(quantity.rounded_up_to_milli() if manifest else quantity).text()}"'

    return "{" + ",".join(values.rendered_members(value, render)) + "}"
