"""Renders a container as go-spew prints it with `%#v` (eras A and B).

Every revision of go-spew that Kubernetes vendored prints these types alike. The renderers are composed once per minor
from the table of `schema`. A renderer prints what follows the type; a type such as `(v1.Protocol)` is printed by the
struct around a field, never by a list.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

from ..changes import VERSIONED_STRUCT
from ..errors import Misfit
from . import values
from .quantity import UNSET, Quantity
from .schema import CONTAINER, STRUCTS, StructField, fields_of

Render = Callable[[object], str]

_GO_NAMES = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64",
    "Quantity": "resource.Quantity", "IntOrString": "intstr.IntOrString",
}  # fmt: skip
# One Go type until 1.23 split it in two.
_HANDLERS = {"ProbeHandler": "Handler", "LifecycleHandler": "Handler"}


def container_text(container: Mapping[str, object], minor: int, *, manifest: bool = False) -> bytes:
    """Return the text that go-spew prints for the container.

    Args:
        container: as the API serves it, or a defaulted one from a manifest.
        minor: the kubelet's minor.
        manifest: the kubelet read it from a file. Only then does an empty list differ from none: the protobuf in which
            API pods arrive does not distinguish them.

    Raises:
        Misfit: a value does not fit, or its rendering is not certain.
    """
    printed = _go_type(CONTAINER, minor) + _renderer(CONTAINER, minor, manifest)(container)
    try:
        return printed.encode()
    except UnicodeEncodeError:
        raise Misfit("there is text that is not valid UTF-8") from None


def _go_type(type_: str, minor: int) -> str:
    """Return the type in parentheses, as Go's reflect package names it. 1.5 hashed internal types of package `api`."""
    base = type_.lstrip("*[]")
    package = "v1" if VERSIONED_STRUCT.covers(minor) else "api"
    return f"({type_[: len(type_) - len(base)]}{_GO_NAMES.get(base, f'{package}.{_HANDLERS.get(base, base)}')})"


@cache
def _renderer(type_: str, minor: int, manifest: bool) -> Render:
    if type_.startswith("*"):
        return _renderer(type_[1:], minor, manifest)
    if type_.startswith("[]"):
        return partial(_list, render_item=_renderer(type_[2:], minor, manifest), empty="[]" if manifest else "<nil>")
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
            return lambda value: _quantity(values.resource_quantity(value))
        case "ResourceList":
            return partial(_resource_list, manifest=manifest)
        case _:
            return values.text


def _struct(name: str, minor: int, manifest: bool) -> Render:
    members = [_member(field, minor, manifest) for field in fields_of(name, minor)]

    def render(value: object) -> str:
        given = values.mapping(value)
        parts = []
        for key, label, render_field, absent in members:
            item = given.get(key) if key else given
            if item is None:
                parts.append(absent)
                continue
            try:
                parts.append(label + render_field(item))
            except Misfit as error:
                raise (error.inside(key) if key else error) from None
        return "{" + " ".join(parts) + "}"

    return render


def _member(field: StructField, minor: int, manifest: bool) -> tuple[str, str, Render, str]:
    """Return JSON key (empty if embedded), label, renderer, and text if absent."""
    label = f"{field.name}:{_go_type(field.type, minor)}"
    render = _renderer(field.type, minor, manifest)
    return field.key, label, render, label + _zero(field.type, render, manifest)


def _zero(type_: str, render: Render, manifest: bool) -> str:
    if type_.startswith(("*", "[]")) or type_ == "ResourceList":
        return "<nil>"
    if type_ in STRUCTS:
        return render({})
    match type_:
        case "bool":
            return "false"
        case "int32" | "int64":
            return "0"
        case "IntOrString":
            return render(0)
        case "Quantity":
            # The API server defaults an unset divisor to "0", which go-spew prints differently from one never set.
            return _quantity(UNSET) if manifest else render("0")
        case _:
            return ""


def _list(value: object, render_item: Render, empty: str) -> str:
    parts = values.rendered_items(value, render_item)
    return "[" + " ".join(parts) + "]" if parts else empty


def _int_or_string(value: object) -> str:
    port = values.int_or_string(value)
    kind, number, name = (1, 0, port) if isinstance(port, str) else (0, port, "")
    return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){name}}}"


def _resource_list(value: object, *, manifest: bool) -> str:
    def render(name: str, amount: object) -> str:
        quantity = values.resource_quantity(amount)
        return f"{name}:{_quantity(quantity.rounded_up_to_milli() if manifest else quantity)}"

    parts = values.rendered_members(value, render)
    return "map[" + " ".join(parts) + "]" if parts else "map[]" if manifest else "<nil>"


def _quantity(quantity: Quantity) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){quantity.value} scale:(resource.Scale){quantity.scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec){_big_decimal(quantity)}}} "
        f"s:(string){quantity.cached} Format:(resource.Format){quantity.format or ''}}}"
    )


def _big_decimal(quantity: Quantity) -> str:
    if quantity.unscaled is None:
        return "<nil>"
    if quantity.unscaled == 0:
        raise Misfit("a quantity is a zero that Go holds as a big decimal; write it as 0")
    number, words = abs(quantity.unscaled), []
    while number:
        words.append(str(number & 0xFFFF_FFFF_FFFF_FFFF))
        number >>= 64
    sign = "true" if quantity.unscaled < 0 else "false"
    return (
        f"{{unscaled:(big.Int){{neg:(bool){sign} abs:(big.nat)[{' '.join(words)}]}} "
        f"scale:(inf.Scale){quantity.unscaled_scale}}}"
    )
