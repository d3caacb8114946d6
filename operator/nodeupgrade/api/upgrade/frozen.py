"""Detects edits to the frozen part of a spec: the fields that are immutable once the rollout is accepted.

API servers with CEL reject such edits. For all others, the control plane compares the digest of the frozen part with
the one that it recorded when it accepted the object.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.defaulting import filled, ordered, rebuilt
from nodeupgrade.api.schema.derive import Schema, Type
from nodeupgrade.api.upgrade.spec import SPEC


def frozen_digest(spec: Json) -> str:
    """Return the digest of the frozen part of a valid spec.

    Default values do not count, so the digest stays the same when a new version adds a field with a default. Nor do the
    order of sets and unknown fields.
    """
    text = json.dumps(ordered(SPEC, _frozen(SPEC, filled(SPEC, spec))), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _frozen(schema: Schema, value: Any) -> Any:  # Any: JSON of that schema
    if schema.type is Type.OBJECT:
        value = {name: item for name, item in value.items() if not _is_left_out(schema.of(name), item)}
    return rebuilt(schema, value, _frozen)


def _is_left_out(schema: Schema, item: Any) -> bool:
    return schema.mutable or (schema.default is not None and bool(item == filled(schema, schema.default)))


def changeable(schema: Schema = SPEC, path: str = "spec") -> Iterator[str]:
    """Yield the paths of the fields that may be changed at any time."""
    if schema.mutable:
        yield path
        return
    for name, child in schema.properties.items():
        yield from changeable(child, f"{path}.{name}")
    if schema.type is Type.ARRAY and schema.items is not None:
        yield from changeable(schema.items, f"{path}[]")


def change_rejected() -> str:
    """Return the message about an edit of the frozen part; a digest does not show which field was edited."""
    return (
        "an immutable field of the spec was changed after the rollout was accepted, so no further node is started; "
        f"restore it to continue, or create another NodeUpgrade. Mutable fields: {', '.join(changeable())}; "
        "names can be added to nodes.exclude and approvedWaves, but not removed"
    )
